// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

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
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// owner is the hub controller of one source: what it wants of its works outlives the source's processes.
type owner struct {
	fleet *fleet
	id    string
	place
	*hub
	clusters []*cluster // where it has works
	wants    map[string]*wish
	absent   []string             // keys of works that the present process does not have yet
	complete bool                 // the inventory of the present process
	lost     map[string]time.Time // by cluster: when the source last lost records; guarded by fleet.mu
	forgot   map[string]time.Time // by cluster: when it last gave up on deletions; guarded by fleet.mu
}

// wish is what an owner wants of a work.
type wish struct {
	*life
	Value, Label string
}

func (w *wish) bad() bool { return strings.HasPrefix(w.Value, badValue) }

// unsure reports whether agents may have something else, or nothing.
func (w *wish) unsure() bool { return w.bad() || w.reused }

// key of a work among an owner's.
func (l *life) key() string { return l.cluster + "/" + l.name }

func (f *fleet) newOwner(id string) *owner {
	o := &owner{
		fleet: f, id: id, place: f.newPlace(id),
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
	source, err := work.NewSource(o.line.plug(f.bus.Transport()), f.sourceOptions(o))
	if err != nil {
		f.t.Fatal(err)
	}
	o.hub = &hub{Source: source, t: f.t, process: f.launch(source)}
	f.followHub(o)
}

// restart replaces the process by one that has nothing, whose owner has to create the works anew,
// or by one that has its store.
func (o *owner) restart() {
	f := o.fleet
	f.count.add("restarted sources", 1)
	f.tell("%s restarts", o.id)
	f.end(o.process, o.line)
	if o.store != nil {
		f.count.add("restarted sources with a store", 1)
		f.pause()
		f.setClock(&o.place)
		o.start()
		f.judgeStore(o.id, o.store, o.KeptRecords)
		return
	}
	for _, c := range o.clusters {
		o.loses(c)
	}
	if f.profile.Traits().Strict {
		time.Sleep(time.Second) // works of the next process have another time of creation, which is all that tells
	}
	f.pause()
	f.setClock(&o.place) // as machines that start do
	o.complete = false
	o.absent = slices.Sorted(maps.Keys(o.wants))
	o.start()
	if f.trouble.Drop {
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

// loses notes that the source has no records of a cluster any more, or may lack some.
func (o *owner) loses(c *cluster) {
	o.fleet.mu.Lock()
	defer o.fleet.mu.Unlock()
	o.lost[c.name] = time.Now()
}

// recreate creates up to n works anew, and may say that they are all when they are.
func (o *owner) recreate(n int) {
	for _, key := range o.absent[:n] {
		o.put(o.wants[key])
	}
	o.absent = o.absent[n:]
	if len(o.absent) == 0 && !o.complete && o.fleet.random.IntN(4) > 0 && !o.fleet.trouble.Open {
		o.completeInventory()
	}
}

func (o *owner) completeInventory() {
	o.fleet.tell("%s has all its works", o.id)
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
	f.tell("%s gives up on %s", o.id, c.name)
	if err := o.Forget(f.t.Context(), c.name); err != nil {
		f.t.Error(err)
	}
}

// put creates a work in the present process.
func (o *owner) put(w *wish) {
	f := o.fleet
	obj := newWork(w.name, w.Value)
	obj.Labels = map[string]string{"label": w.Label}
	if f.trouble.Held && f.random.IntN(3) == 0 {
		obj.Finalizers = []string{"example.com/mine"}
	}
	out := o.create(w.cluster, obj)
	f.tell("%s creates %s %s as %s", o.id, w.key(), w.Value, out.UID)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uids[string(out.UID)], w.created = w.life, time.Now()
}

// change creates, updates or deletes a work, or does what is due of it after a restart.
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
	if f.trouble.Bad && f.random.IntN(4) == 0 {
		return f.value(l, badValue)
	}
	return f.value(l, "value-")
}

func (o *owner) update(w *wish) {
	f := o.fleet
	switch n := f.random.IntN(6); {
	case n < 2:
		f.count.add("deletions", 1)
		f.endLife(w.life)
		f.tell("%s deletes %s", o.id, w.key())
		o.delete(w.cluster, w.name)
		delete(o.wants, w.key())
	case n < 4 && f.trouble.Labels:
		w.Label = f.value(w.life, "label-")
		o.patch(w.cluster, w.name, fmt.Sprintf(`{"metadata":{"labels":{"label":%q}}}`, w.Label))
	default:
		w.Value = o.newValue(w.life)
		f.tell("%s sets %s to %s", o.id, w.key(), w.Value)
		o.setValue(w.cluster, w.name, w.Value)
	}
}

// release takes the user's own finalizers off.
func (o *owner) release(cluster, name string) {
	o.patch(cluster, name, `{"metadata":{"finalizers":null}}`)
}

// patch tolerates that the work went away meanwhile.
func (o *owner) patch(cluster, name, data string) {
	_, err := o.works(cluster).Patch(o.fleet.t.Context(), name, types.MergePatchType, []byte(data), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		o.fleet.t.Fatal(err)
	}
}

// cluster has an agent, a work controller, and what that has applied, which outlives both.
type cluster struct {
	fleet *fleet
	name  string
	place
	*spoke
	records  map[string]work.Record // when last looked at, of the present process
	restarts []time.Time            // guarded by fleet.mu

	mu      sync.Mutex
	applied map[string]deployed // by the works' names
}

// deployed is what a work controller has applied of a work, and when.
type deployed struct {
	value string
	at    time.Time
}

func (f *fleet) newCluster(name string) *cluster {
	return &cluster{fleet: f, name: name, place: f.newPlace(name), applied: map[string]deployed{}}
}

func (c *cluster) start() {
	f := c.fleet
	agent, err := work.NewAgent(c.line.plug(f.bus.Transport()), f.agentOptions(c))
	if err != nil {
		f.t.Fatal(err)
	}
	c.spoke = &spoke{Agent: agent, t: f.t, cluster: c.name, process: f.launch(agent)}
	c.records = nil
	f.followSpoke(c)
}

// restart replaces the process by one that has nothing, or its store.
func (c *cluster) restart() {
	f := c.fleet
	f.count.add("restarted agents", 1)
	f.tell("%s restarts", c.name)
	f.end(c.process, c.line)
	f.pause()
	f.setClock(&c.place)
	if c.store != nil {
		f.count.add("restarted agents with a store", 1)
		c.start()
		f.judgeStore(c.name, c.store, c.KeptRecords)
		return
	}
	f.mu.Lock()
	c.restarts = append(c.restarts, time.Now())
	f.mu.Unlock()
	c.start()
}

// restartedSince reports whether the agent has lost what it knew at a time. fleet.mu is held.
func (c *cluster) restartedSince(at time.Time) bool {
	return slices.ContainsFunc(c.restarts, func(restart time.Time) bool { return !restart.Before(at) })
}

// set what is applied, "" for nothing.
func (c *cluster) set(name, value string) {
	c.fleet.tell("%s applies %q as %s", c.name, value, name)
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

// serve does what a work controller does: hold, apply, report, clean up. One that is slow does a part of that.
func (c *cluster) serve(slow bool) {
	f := c.fleet
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Second)
	defer cancel()
	list, err := c.works().List(ctx, metav1.ListOptions{})
	if err != nil {
		return // its initial sync has not ended
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
	value := valueOf(f.t, w)
	c.set(w.Name, value)
	observed := len(w.Status.Conditions) > 0 && w.Status.Conditions[0].ObservedGeneration == w.Generation
	if strings.HasPrefix(applied(w), value+" ") && observed && (!slow || f.random.IntN(4) > 0) {
		return
	}
	c.patchAt(w, nil, &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{
		Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Simulated",
		Message: value + " " + f.value(f.lifeOf(value), ""), LastTransitionTime: metav1.Now(),
		ObservedGeneration: w.Generation,
	}}})
}

// patchAt changes the work if it is still what it was.
func (c *cluster) patchAt(w *workv1.ManifestWork, metadata map[string]any, status *workv1.ManifestWorkStatus) *workv1.ManifestWork {
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
