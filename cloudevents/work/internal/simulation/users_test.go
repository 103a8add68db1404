// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/agent"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/source"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// owner is the user of one source. Its wishes outlive the processes of the source.
type owner struct {
	fleet *fleet
	id    string
	host
	*source.Source
	watcher  *watcher
	clusters []*cluster // where it has works
	wants    map[string]*wish
	absent   []string             // keys of works that the current process does not have yet
	complete bool                 // the inventory of the current process is complete
	lost     map[string]time.Time // by cluster: when the source last lost records; guarded by fleet.mu
	forgot   map[string]time.Time // by cluster: when it last called Forget; guarded by fleet.mu
}

// wish is the state that an owner wants for a work.
type wish struct {
	*life
	Value, Label string
}

func (w *wish) bad() bool { return strings.HasPrefix(w.Value, badValue) }

// unsure reports whether agents may have another state of the work, or no work.
func (w *wish) unsure() bool { return w.bad() || w.reused }

// key returns the key of a work among the works of an owner.
func (l *life) key() string { return l.cluster + "/" + l.name }

func (f *fleet) newOwner(id string) *owner {
	o := &owner{
		fleet: f, id: id, host: f.newHost(id),
		wants: map[string]*wish{}, lost: map[string]time.Time{}, forgot: map[string]time.Time{},
	}
	for _, c := range f.clusters {
		if len(o.clusters) == 0 || f.random.IntN(3) > 0 {
			o.clusters = append(o.clusters, c)
		}
	}
	return o
}

func (o *owner) start() {
	f := o.fleet
	var err error
	if o.Source, err = source.New(o.link.transport(f.bus.Transport()), f.sourceOptions(o)); err != nil {
		f.t.Fatal(err)
	}
	o.kill = f.launch(o.Source.Start)
	f.watchSource(o)
}

func (o *owner) works(cluster string) worktyped.ManifestWorkInterface {
	return o.Clientset().WorkV1().ManifestWorks(cluster)
}

// restart restarts the process. If it has no store, it has no works, and the owner must create them
// again.
func (o *owner) restart() {
	f := o.fleet
	f.count.add("restarted sources", 1)
	f.log("%s restarts", o.id)
	f.end(&o.host)
	if o.store != nil {
		f.count.add("restarted sources with a store", 1)
		f.pause()
		f.setClock(&o.host)
		o.start()
		f.verifyStore(o.id, o.store, o.KeptRecords)
		return
	}
	for _, c := range o.clusters {
		o.loses(c)
	}
	if f.profile.Traits().Bundle {
		time.Sleep(time.Second) // only the time of creation distinguishes works of the next process
	}
	f.pause()
	f.setClock(&o.host) // as on the start of a machine
	o.complete = false
	o.absent = slices.Sorted(maps.Keys(o.wants))
	o.start()
	if f.config.Drop {
		o.absent = slices.DeleteFunc(o.absent, func(key string) bool {
			dropped := f.random.IntN(8) == 0
			if dropped {
				f.endLife(o.wants[key].life)
				o.loses(f.clusterOf(o.wants[key].life))
				delete(o.wants, key)
			}
			return dropped
		})
	}
	if f.random.IntN(4) > 0 {
		o.recreate(len(o.absent))
	}
}

// loses records that the source has lost records of a cluster, or may have lost some.
func (o *owner) loses(c *cluster) {
	o.fleet.mu.Lock()
	defer o.fleet.mu.Unlock()
	o.lost[c.name] = time.Now()
}

// recreate creates up to n works again. If all works exist then, it may complete the inventory.
func (o *owner) recreate(n int) {
	for _, key := range o.absent[:n] {
		o.put(o.wants[key])
	}
	o.absent = o.absent[n:]
	if len(o.absent) == 0 && !o.complete && o.fleet.random.IntN(4) > 0 && !o.fleet.config.Open {
		o.completeInventory()
	}
}

func (o *owner) completeInventory() {
	o.fleet.log("%s has all its works", o.id)
	o.complete = true
	if err := o.InventoryComplete(o.fleet.t.Context()); err != nil {
		o.fleet.t.Fatal(err)
	}
}

func (o *owner) forget() {
	f := o.fleet
	c := o.clusters[f.random.IntN(len(o.clusters))]
	o.loses(c)
	f.mu.Lock()
	o.forgot[c.name] = time.Now()
	f.mu.Unlock()
	f.log("%s gives up on %s", o.id, c.name)
	if err := o.Forget(f.t.Context(), c.name); err != nil {
		f.t.Error(err)
	}
}

// put creates a work in the current process.
func (o *owner) put(w *wish) {
	f := o.fleet
	obj := worktest.New(w.name, w.Value)
	obj.Labels = map[string]string{"label": w.Label}
	if f.config.Held && f.random.IntN(3) == 0 {
		obj.Finalizers = []string{"example.com/mine"}
	}
	out, err := o.works(w.cluster).Create(f.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.log("%s creates %s %s as %s", o.id, w.key(), w.Value, out.UID)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uids[string(out.UID)], w.created = w.life, time.Now()
}

// change creates, updates or deletes a work. After a restart it first creates absent works again.
func (o *owner) change() {
	f := o.fleet
	if len(o.absent) > 0 {
		o.recreate(1 + f.random.IntN(len(o.absent)))
		return
	}
	c := o.clusters[f.random.IntN(len(o.clusters))]
	name := fmt.Sprintf("%s-w%d", o.id, f.random.IntN(3))
	current, err := o.works(c.name).Get(f.t.Context(), name, metav1.GetOptions{})
	switch {
	case err != nil:
		w := &wish{life: f.begin(o, c, name)}
		w.Value, w.Label = o.newValue(w.life), f.value(w.life, "label-")
		o.wants[w.key()] = w
		o.put(w)
	case current.DeletionTimestamp != nil:
		if len(current.Finalizers) > 1 || current.Finalizers[0] != workv1.ManifestWorkFinalizer {
			o.release(c.name, name)
		}
	default:
		o.update(o.wants[c.name+"/"+name])
	}
}

func (o *owner) newValue(l *life) string {
	f := o.fleet
	if f.config.Bad && f.random.IntN(4) == 0 {
		return f.value(l, badValue)
	}
	return f.value(l, "value-")
}

func (o *owner) update(w *wish) {
	f := o.fleet
	switch n := f.random.IntN(6); {
	case n < 2:
		f.count.add("deletions", 1)
		f.log("%s deletes %s", o.id, w.key())
		o.delete(w)
	case n < 4 && f.config.Labels:
		w.Label = f.value(w.life, "label-")
		o.patch(w.cluster, w.name, fmt.Sprintf(`{"metadata":{"labels":{"label":%q}}}`, w.Label))
	default:
		w.Value = o.newValue(w.life)
		f.log("%s sets %s to %s", o.id, w.key(), w.Value)
		o.updateSpec(w)
	}
}

func (o *owner) updateSpec(w *wish) {
	ctx, works := o.fleet.t.Context(), o.works(w.cluster)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		obj, err := works.Get(ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		obj.Spec = worktest.New(w.name, w.Value).Spec
		_, err = works.Update(ctx, obj, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		o.fleet.t.Fatal(err)
	}
}

func (o *owner) delete(w *wish) {
	o.fleet.endLife(w.life)
	if err := o.works(w.cluster).Delete(o.fleet.t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		o.fleet.t.Fatal(err)
	}
	delete(o.wants, w.key())
}

// release removes the user's own finalizers.
func (o *owner) release(cluster, name string) {
	o.patch(cluster, name, `{"metadata":{"finalizers":null}}`)
}

// patch patches a work. It ignores NotFound, because the work may have been deleted meanwhile.
func (o *owner) patch(cluster, name, data string) {
	_, err := o.works(cluster).Patch(o.fleet.t.Context(), name, types.MergePatchType, []byte(data), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		o.fleet.t.Fatal(err)
	}
}

// cluster is an agent, a work controller, and the values that the controller has applied. The
// values outlive both.
type cluster struct {
	fleet *fleet
	name  string
	host
	*agent.Agent
	watcher  *watcher
	records  map[string]agent.Record // at the last inspection of the current process
	restarts []time.Time             // guarded by fleet.mu

	mu      sync.Mutex
	applied map[string]deployed // by the works' names
}

// deployed is the value that a work controller has applied for a work, and the time.
type deployed struct {
	value string
	at    time.Time
}

func (f *fleet) newCluster(name string) *cluster {
	return &cluster{fleet: f, name: name, host: f.newHost(name), applied: map[string]deployed{}}
}

func (c *cluster) start() {
	f := c.fleet
	var err error
	if c.Agent, err = agent.New(c.link.transport(f.bus.Transport()), f.agentOptions(c)); err != nil {
		f.t.Fatal(err)
	}
	c.kill = f.launch(c.Agent.Start)
	c.records = nil
	f.watchAgent(c)
}

func (c *cluster) works() worktyped.ManifestWorkInterface {
	return c.Clientset().WorkV1().ManifestWorks(c.name)
}

// restart restarts the process, with its store if it has a store.
func (c *cluster) restart() {
	f := c.fleet
	f.count.add("restarted agents", 1)
	f.log("%s restarts", c.name)
	f.end(&c.host)
	f.pause()
	f.setClock(&c.host)
	if c.store != nil {
		f.count.add("restarted agents with a store", 1)
		c.start()
		f.verifyStore(c.name, c.store, c.KeptRecords)
		return
	}
	f.mu.Lock()
	c.restarts = append(c.restarts, time.Now())
	f.mu.Unlock()
	c.start()
}

// restartedSince reports whether the agent has lost its state since a time. fleet.mu must be held.
func (c *cluster) restartedSince(at time.Time) bool {
	return slices.ContainsFunc(c.restarts, func(restart time.Time) bool { return !restart.Before(at) })
}

// set sets the applied value of a work. An empty value removes it.
func (c *cluster) set(name, value string) {
	c.fleet.log("%s applies %q as %s", c.name, value, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if value == "" {
		delete(c.applied, name)
		return
	}
	if c.applied[name].value != value {
		c.applied[name] = deployed{value, time.Now()}
	}
}

func (c *cluster) deployed(name string) deployed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied[name]
}

// serve acts as a work controller: it sets finalizers, applies, reports and cleans up. A slow
// controller does a part of that.
func (c *cluster) serve(slow bool) {
	f := c.fleet
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Second)
	defer cancel()
	list, err := c.works().List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the initial sync has not ended
	}
	for i := range list.Items {
		if !slow || f.random.IntN(3) > 0 {
			c.serveWork(&list.Items[i], slow)
		}
	}
}

func (c *cluster) serveWork(w *workv1.ManifestWork, slow bool) {
	f := c.fleet
	if w.DeletionTimestamp != nil {
		c.set(w.Name, "")
		c.patchAt(w, map[string]any{"finalizers": nil}, nil)
		return
	}
	if len(w.Finalizers) == 0 {
		w = c.patchAt(w, map[string]any{"finalizers": []string{workv1.ManifestWorkFinalizer}}, nil)
	}
	if w == nil || slow && f.random.IntN(3) == 0 {
		return
	}
	value := worktest.Value(f.t, w)
	c.set(w.Name, value)
	observed := len(w.Status.Conditions) > 0 && w.Status.Conditions[0].ObservedGeneration == w.Generation
	if strings.HasPrefix(worktest.Applied(w), value+" ") && observed && (!slow || f.random.IntN(4) > 0) {
		return
	}
	c.patchAt(w, nil, &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Simulated",
		Message: value + " " + f.value(f.lifeOf(value), ""), LastTransitionTime: metav1.Now(),
		ObservedGeneration: w.Generation,
	}}})
}

// patchAt changes the work if its resourceVersion is still the same.
func (c *cluster) patchAt(
	w *workv1.ManifestWork, metadata map[string]any, status *workv1.ManifestWorkStatus,
) *workv1.ManifestWork {
	t := c.fleet.t
	body, subresources := map[string]any{"metadata": map[string]any{"resourceVersion": w.ResourceVersion}}, []string(nil)
	maps.Copy(body["metadata"].(map[string]any), metadata)
	if status != nil {
		body["status"], subresources = status, []string{"status"}
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.works().Patch(t.Context(), w.Name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	switch {
	case err == nil:
		return out
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		t.Fatal(err)
	}
	return nil
}
