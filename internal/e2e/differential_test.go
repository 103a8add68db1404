// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var (
	firstSeed = flag.Int64("seed", 1, "the first seed of TestDifferential")
	seeds     = flag.Int64("seeds", 3, "how many seeds TestDifferential runs")
)

// TestDifferential sends the same random requests to a real API server, and to sources and agents:
// to one pair by their clientsets, and to another pair over HTTP by package restconfig. For each
// seed it first sends changes, on works that are created and deleted. Then it sends invalid dry
// runs, and last changes of the metadata that an agent does not send. The table named
// normalisations removes the differences that API.md of work lists. TestAggregatedAPI has another
// pair.
//
//	go test -run TestDifferential . -args -seed 100 -seeds 50
func TestDifferential(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			name := newWriter(t, cluster).namespace("seed")
			testSeed(t, seed, cluster, name, ourEnd(t, name, false), ourEnd(t, name, true))
		})
	}
}

// testSeed compares ends with a namespace of an API server.
func testSeed(t *testing.T, seed int64, cluster *kube.Cluster, namespace string, others ...*end) {
	t.Helper()
	config := cluster.Config()
	config.WarningHandler = rest.NoWarnings{}
	c := workclientset.NewForConfigOrDie(config).WorkV1().ManifestWorks(namespace)
	d := &differential{
		t: t, bodies: bodies{rand.New(rand.NewSource(seed))}, applied: map[string]bool{},
		ends: append([]*end{{hub: c, agent: c}}, others...),
	}
	for _, e := range d.ends {
		e.seen = map[string][]*workv1.ManifestWork{}
	}
	for range 30 {
		d.compare(d.change())
	}
	d.prepare("full")
	for range 30 {
		d.compare(d.spoil("full"))
	}
	d.prepare("own")
	for range 15 {
		d.compare(d.own("own"))
	}
	if t.Failed() {
		t.Logf("once more: go test -run %s . -args -seed %d -seeds 1", strings.SplitN(t.Name(), "/seed", 2)[0], seed)
	}
}

func ourEnd(t *testing.T, cluster string, http bool) *end {
	t.Helper()
	bus := memory.New()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: cluster, Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	background(t, agent.Start)
	if !http {
		return &end{hub: source.Clientset().WorkV1().ManifestWorks(cluster),
			agent: agent.Clientset().WorkV1().ManifestWorks(cluster)}
	}
	through := func(config *rest.Config, err error) works {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		config.WarningHandler = rest.NoWarnings{}
		return workclientset.NewForConfigOrDie(config).WorkV1().ManifestWorks(cluster)
	}
	return &end{hub: through(restconfig.FromSource(source)), agent: through(restconfig.FromAgent(agent)), http: true}
}

// end is one of the compared systems. On an API server hub and agent are the same client.
type end struct {
	hub, agent works
	http       bool                              // a source and an agent, over HTTP
	seen       map[string][]*workv1.ManifestWork // states of each object, the current one last
}

// differential is the run of one seed.
type differential struct {
	bodies
	t       *testing.T
	ends    []*end          // the first one is the API server
	applied map[string]bool // objects that an apply created, so both ends track their managers
}

// request is sent to all ends.
type request struct {
	what, name      string
	onAgent, apply  bool
	dryRun, nothing bool // nothing: there is no object to show
	own             bool // the agent's user changes metadata that is not sent
	send            func(context.Context, works, *end) (*workv1.ManifestWork, error)
}

// last returns an object's last state, or an earlier one with another version on all ends.
func (d *differential) last(name string, earlier bool) func(*end) *workv1.ManifestWork {
	back := 1
	if n := len(d.ends[0].seen[name]); earlier && n > 1 {
		i := 2 + d.Intn(n-1)
		if !slices.ContainsFunc(d.ends,
			func(e *end) bool { return e.seen[name][n-i].ResourceVersion == e.seen[name][n-1].ResourceVersion }) {
			back = i
		}
	}
	return func(e *end) *workv1.ManifestWork {
		if n := len(e.seen[name]); n > 0 {
			return e.seen[name][n-back].DeepCopy()
		}
		w := &workv1.ManifestWork{}
		w.Name = name
		return w
	}
}

// patch returns a request with a body. "$same" in metadata stands for the current value of the
// object.
func (d *differential) patch(what, name string, pt types.PatchType, body any, subresources ...string) request {
	options := metav1.PatchOptions{}
	if pt == types.ApplyPatchType {
		options.FieldManager = one(d.bodies, "one", "two")
		options.Force = one(d.bodies, nil, ptr.To(true))
	}
	last, sent := d.last(name, d.chance(20)), text(body)
	return request{
		what: what + " " + sent, name: name, onAgent: len(subresources) > 0, apply: pt == types.ApplyPatchType,
		send: func(ctx context.Context, w works, e *end) (*workv1.ManifestWork, error) {
			now := last(e)
			if of, err := w.Get(ctx, name, metav1.GetOptions{}); err == nil && len(subresources) > 0 {
				now = of // the two sides have their own versions and UIDs
			}
			filled := strings.NewReplacer(
				`"resourceVersion":"$same"`, `"resourceVersion":"`+now.ResourceVersion+`"`,
				`"uid":"$same"`, `"uid":"`+string(now.UID)+`"`, `"$same"`, `"gen-"`,
			).Replace(sent)
			return w.Patch(ctx, name, pt, []byte(filled), options, subresources...)
		},
	}
}

// change returns a request that may change an object.
func (d *differential) change() request {
	name := one(d.bodies, "a", "a", "b")
	switch kind := d.Intn(12); kind {
	case 0, 1:
		w := &workv1.ManifestWork{}
		w.Name = name
		w.Spec.Workload.Manifests = []workv1.Manifest{manifest(`{"apiVersion":"v1","kind":"ConfigMap"}`)}
		d.edit(w)
		return request{what: "create " + text(w), name: name,
			send: func(ctx context.Context, c works, _ *end) (*workv1.ManifestWork, error) {
				return c.Create(ctx, w.DeepCopy(), metav1.CreateOptions{})
			}}
	case 2, 3:
		last, seed, mode := d.last(name, d.chance(20)), d.Int63(), d.Intn(12)
		return request{what: fmt.Sprintf("update, mode %d", mode), name: name,
			send: func(ctx context.Context, c works, e *end) (*workv1.ManifestWork, error) {
				w := last(e)
				bodies{rand.New(rand.NewSource(seed))}.edit(w)
				switch mode {
				case 0:
					w.ResourceVersion = ""
				case 1:
					w.UID = "other"
				case 2:
					w.UID, w.ManagedFields, w.CreationTimestamp = "", nil, metav1.Time{}
				}
				return c.Update(ctx, w, metav1.UpdateOptions{})
			}}
	case 4, 5:
		return d.patch("merge", name, types.MergePatchType, d.merge())
	case 6:
		return d.patch("json", name, types.JSONPatchType, d.operations())
	case 7, 8:
		return d.patch("apply", name, types.ApplyPatchType, d.configuration(name))
	case 9:
		last, mode := d.last(name, d.chance(30)), d.Intn(5)
		return request{what: fmt.Sprintf("delete, mode %d", mode), name: name, nothing: true,
			send: func(ctx context.Context, c works, e *end) (*workv1.ManifestWork, error) {
				w, o := last(e), metav1.DeleteOptions{}
				switch mode {
				case 0:
					o.Preconditions = &metav1.Preconditions{UID: &w.UID}
				case 1:
					o.Preconditions = &metav1.Preconditions{ResourceVersion: &w.ResourceVersion}
				case 2:
					o.Preconditions = metav1.NewUIDPreconditions("other")
				}
				return nil, c.Delete(ctx, name, o)
			}}
	case 10:
		status := d.status()
		return request{what: "update of the status " + text(status), name: name, onAgent: true,
			send: func(ctx context.Context, c works, _ *end) (*workv1.ManifestWork, error) {
				w, err := c.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return nil, err
				}
				w.Status = status
				return c.UpdateStatus(ctx, w, metav1.UpdateOptions{})
			}}
	}
	return d.patch("merge of the status", name, types.MergePatchType, object{"status": d.status()}, "status")
}

// prepare creates an object with all fields.
func (d *differential) prepare(name string) {
	d.t.Helper()
	w := &workv1.ManifestWork{}
	w.Name = name
	if err := json.Unmarshal([]byte(fullSpec), &w.Spec); err != nil {
		d.t.Fatal(err)
	}
	var status any
	if err := json.Unmarshal([]byte(fullStatus), &status); err != nil {
		d.t.Fatal(err)
	}
	d.compare(request{what: "create what is full", name: name,
		send: func(ctx context.Context, c works, _ *end) (*workv1.ManifestWork, error) {
			return c.Create(ctx, w.DeepCopy(), metav1.CreateOptions{})
		}})
	d.compare(d.patch("full status", name, types.MergePatchType, object{"status": status}, "status"))
	if got := d.last(name, false)(d.ends[0]); len(got.Status.Conditions) == 0 {
		d.t.Fatalf("%s is not full: %v", name, got)
	}
}

// own returns a change of metadata on the agent.
func (d *differential) own(name string) request {
	for _, e := range d.ends {
		if obj, err := e.agent.Get(d.t.Context(), name, metav1.GetOptions{}); err == nil {
			e.seen[name] = []*workv1.ManifestWork{obj} // the two sides have their own versions and UIDs
		}
	}
	doc := d.merge()
	delete(doc, "spec")
	metadata := child(doc, "metadata")
	delete(metadata, "ownerReferences")
	r := d.patch("merge on the agent", name, types.MergePatchType, doc)
	switch d.Intn(4) {
	case 0:
		metadata["name"], doc["apiVersion"], doc["kind"] = name, "work.open-cluster-management.io/v1", "ManifestWork"
		r = d.patch("apply on the agent", name, types.ApplyPatchType, doc)
	case 1:
		last, seed := d.last(name, false), d.Int63()
		r = request{what: "update on the agent", name: name,
			send: func(ctx context.Context, c works, e *end) (*workv1.ManifestWork, error) {
				w := last(e)
				next := w.DeepCopy()
				bodies{rand.New(rand.NewSource(seed))}.edit(next)
				w.Labels, w.Annotations, w.Finalizers = next.Labels, next.Annotations, next.Finalizers
				return c.Update(ctx, w, metav1.UpdateOptions{})
			}}
	}
	r.onAgent, r.own = true, true
	return r
}

// spoil returns an invalid dry run, with errors in one or two places, and sometimes in the
// metadata.
func (d *differential) spoil(name string) request {
	member, document, subresources := "spec", fullSpec, []string(nil)
	if d.chance(50) {
		member, document, subresources = "status", fullStatus, []string{"status"}
	}
	content := d.spoilt(document)
	doc := object{member: content}
	if d.chance(30) {
		for path, value := d.bodies.member(); ; path, value = d.bodies.member() {
			if path[0] != "spec" {
				if len(path) > 1 {
					value = object{path[1]: value}
				}
				doc[path[0]] = value
				break
			}
		}
	}
	var r request
	switch d.Intn(3) {
	case 0:
		r = d.patch("merge", name, types.MergePatchType, doc, subresources...)
	case 1:
		ops := array{object{"op": "replace", "path": "/" + member, "value": content}}
		for _, other := range []string{"kind", "apiVersion"} {
			if doc[other] != nil {
				ops = append(ops, object{"op": "replace", "path": "/" + other, "value": doc[other]})
			}
		}
		r = d.patch("json", name, types.JSONPatchType, ops, subresources...)
	default:
		if member == "spec" && d.chance(50) {
			name = "new"
		}
		child(doc, "metadata")["name"] = name
		doc["apiVersion"], doc["kind"] = "work.open-cluster-management.io/v1", "ManifestWork"
		r = d.patch("apply", name, types.ApplyPatchType, doc, subresources...)
	}
	send := r.send
	r.dryRun, r.what = true, r.what+" (dry run)"
	r.send = func(ctx context.Context, w works, e *end) (*workv1.ManifestWork, error) { return send(ctx, dry{w}, e) }
	return r
}

// dry makes dry runs of patches.
type dry struct{ works }

func (c dry) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	o.DryRun = []string{metav1.DryRunAll}
	return c.works.Patch(ctx, name, pt, data, o, subresources...)
}

// compare sends a request to all ends, waits until hub and agent agree again, and compares the
// outcomes.
func (d *differential) compare(r request) {
	d.t.Helper()
	outs := make([]outcome, len(d.ends))
	if r.onAgent && d.deleting(r.name) {
		return // the agent has released it by now
	}
	if _, err := d.ends[0].hub.Get(d.t.Context(), r.name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		d.applied[r.name] = r.apply
	}
	for i, e := range d.ends {
		client := e.hub
		if r.onAgent {
			client = e.agent
		}
		obj, err := r.send(d.t.Context(), client, e)
		switch {
		case err != nil:
			outs[i] = refusal(err)
		case r.nothing:
			outs[i] = outcome{"done": "yes"}
		default:
			outs[i] = describe(d.t, obj)
		}
		if r.dryRun {
			continue
		}
		client = e.hub
		if r.own {
			client = e.agent
		} else {
			eventually(d.t, "hub and agent agree after "+r.what, func() error { return e.settled(d.t.Context(), r.name) })
		}
		if obj, err := client.Get(d.t.Context(), r.name, metav1.GetOptions{}); err == nil {
			e.seen[r.name] = append(e.seen[r.name], obj)
			for part, value := range describe(d.t, withoutCleanup(obj)) {
				outs[i]["then "+part] = value
			}
		}
	}
	for i, e := range d.ends[1:] {
		want, got := maps.Clone(outs[0]), outs[1+i]
		for _, n := range normalisations {
			if !e.http || !n.typed {
				n.apply(d, r, want, got)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			d.t.Errorf("%s of %s, over HTTP %t (-API server +ours):\n%s", r.what, r.name, e.http, diff)
		}
	}
}

// deleting reports whether an object is being deleted.
func (d *differential) deleting(name string) bool {
	obj, err := d.ends[0].hub.Get(d.t.Context(), name, metav1.GetOptions{})
	return err == nil && obj.DeletionTimestamp != nil
}

// settled returns an error while hub and agent differ. It cleans up deleting objects on the agent.
func (e *end) settled(ctx context.Context, name string) error {
	hub, err := e.hub.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil || e.hub == e.agent {
		return err
	}
	agent, err := e.agent.Get(ctx, name, metav1.GetOptions{})
	if hub.DeletionTimestamp != nil {
		if err == nil && len(agent.Finalizers) > 0 && agent.DeletionTimestamp != nil {
			_, err = e.agent.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{})
		}
		if slices.Contains(hub.Finalizers, workv1.ManifestWorkFinalizer) {
			return fmt.Errorf("the agent is not done with %s: %w", name, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	travels := func(w *workv1.ManifestWork) any {
		return array{w.Labels, w.Annotations, w.OwnerReferences, w.Generation, w.Spec, w.Status}
	}
	if !apiequality.Semantic.DeepEqual(travels(hub), travels(agent)) {
		return fmt.Errorf("the agent has %v, the hub %v", travels(agent), travels(hub))
	}
	return nil
}

// withoutCleanup returns an object without the finalizer that a source shows while its agent is not
// done.
func withoutCleanup(obj *workv1.ManifestWork) *workv1.ManifestWork {
	out := *obj
	if obj.DeletionTimestamp != nil {
		out.Generation = 0
		out.Finalizers = slices.DeleteFunc(slices.Clone(obj.Finalizers),
			func(f string) bool { return f == workv1.ManifestWorkFinalizer })
	}
	return &out
}
