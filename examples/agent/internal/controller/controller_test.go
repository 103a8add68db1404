// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// cluster is a fake cluster that a test configures. It counts calls.
type cluster struct {
	mu       sync.Mutex
	applied  map[string]int
	removed  map[string]int
	recorded []string
	apply    func(w *workv1.ManifestWork) spoke.Result
	begin    func(w *workv1.ManifestWork) (time.Duration, int)
	served   map[string]int
	left     int           // additional passes that the removal of a work takes
	grace    time.Duration // of an eviction
	evicted  map[string]int
}

func (c *cluster) Begin(_ context.Context, w *workv1.ManifestWork) (served func(), wait time.Duration, ends int) {
	if c.begin != nil {
		wait, ends = c.begin(w)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.served[w.Name]++
	}, wait, ends
}

func (c *cluster) Apply(_ context.Context, w *workv1.ManifestWork, _ func(*manifest.Manifest) bool) spoke.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied[w.Name]++
	return c.apply(w)
}

func (c *cluster) Remove(_ context.Context, w *workv1.ManifestWork) (spoke.Removal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed[w.Name]++
	r := spoke.Removal{Done: c.removed[w.Name] > c.left, Changes: &appliedwork.ChangeSet{}}
	if !r.Done {
		r.Changes.Entries = []appliedwork.Change{{Key: appliedwork.Key{Kind: "ConfigMap", Name: "c"},
			Action: appliedwork.ActionPending}}
	}
	return r, nil
}

func (c *cluster) Evict(_ context.Context, _, name string) (time.Duration, spoke.Removal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evicted[name]++
	if c.evicted[name] == 1 {
		return c.grace, spoke.Removal{}, nil
	}
	return 0, spoke.Removal{Done: true, Changes: &appliedwork.ChangeSet{}}, nil
}

func (c *cluster) Recorded(context.Context, string) ([]string, error) { return c.recorded, nil }

func (c *cluster) count(of map[string]int, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return of[name]
}

// bench is a hub and a controller with a cluster, in a synctest bubble.
// nowhere is the configuration of a cluster without an API server.
var nowhere = &rest.Config{Host: "http://127.0.0.1:1"}

type bench struct {
	*testing.T
	*cluster
	works  worktyped.ManifestWorkInterface // of the hub
	events chan controller.Event
	forget func() // replaces the hub with an empty one
	checks func(error)
}

func run(t *testing.T, change func(*controller.Options, *cluster), test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		bus := memory.New()
		agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, events: make(chan controller.Event, 1000), cluster: &cluster{
			applied: map[string]int{}, served: map[string]int{}, removed: map[string]int{}, evicted: map[string]int{},
			apply: func(*workv1.ManifestWork) spoke.Result { return spoke.Result{} },
		}}
		o := controller.Options{ClusterName: "cluster1", Works: agent.Clientset(), Cluster: b.cluster, Config: nowhere,
			PollInterval:  time.Hour,
			DegradedAfter: time.Minute, Observe: func(e controller.Event) { b.events <- e }}
		if change != nil {
			change(&o, b.cluster)
		}
		c, err := controller.New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		begin := func(ctx context.Context, start func(context.Context) error) {
			group.Go(func() {
				if err := start(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		begin(ctx, agent.Start)
		begin(ctx, c.Start)
		defer group.Wait()
		defer cancel()
		hub := func() (end func()) {
			source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(ctx)
			begin(ctx, source.Start)
			b.works = source.Clientset().WorkV1().ManifestWorks("cluster1")
			if err := source.InventoryComplete(ctx); err != nil {
				t.Fatal(err)
			}
			return end
		}
		end := hub()
		b.forget = func() {
			end()
			end = hub()
		}
		b.checks = func(err error) { c.Checked(ctx, err) }
		b.settle()
		if !c.Synced() {
			t.Fatal("it has not synced")
		}
		test(b)
	})
}

// settle waits until all immediate work is done.
func (b *bench) settle() {
	time.Sleep(time.Second) // fake time
	synctest.Wait()
}

func (b *bench) create(name string, change func(*workv1.ManifestWork)) {
	b.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if change != nil {
		change(w)
	}
	if _, err := b.works.Create(b.Context(), w, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.settle()
}

func (b *bench) get(name string) *workv1.ManifestWork {
	b.Helper()
	w, err := b.works.Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func (b *bench) reports(name, kind string, status metav1.ConditionStatus, text string) {
	b.Helper()
	w := b.get(name)
	c := meta.FindStatusCondition(w.Status.Conditions, kind)
	if c == nil && status == "" {
		return
	}
	if c == nil || c.Status != status || c.ObservedGeneration != w.Generation ||
		!strings.Contains(c.Reason+" "+c.Message, text) {
		b.Errorf("%s is %+v, want %s %q", kind, c, status, text)
	}
}

// TestWorkLifecycle checks that a work is applied once for each generation, and that its deletion ends when
// no resources are left.
func TestWorkLifecycle(t *testing.T) {
	run(t, func(_ *controller.Options, c *cluster) { c.left = 2 }, func(b *bench) {
		b.create("w", nil)
		b.reports("w", workv1.WorkApplied, metav1.ConditionTrue, "")
		if n := b.count(b.applied, "w"); n != 1 {
			b.Errorf("applied %d times", n)
		}
		w := b.get("w")
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		if _, err := b.works.Update(b.Context(), w, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		b.reports("w", workv1.WorkApplied, metav1.ConditionTrue, "")
		if n := b.count(b.applied, "w"); n != 2 {
			b.Errorf("applied %d times", n)
		}
		if err := b.works.Delete(b.Context(), "w", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		b.reports("w", workv1.WorkDeleting, metav1.ConditionTrue, "1 resource is still there")
		time.Sleep(10 * time.Second)
		b.settle()
		if _, err := b.works.Get(b.Context(), "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("it is there: %v", err)
		}
		var last controller.Event
		for len(b.events) > 0 {
			last = <-b.events
		}
		if last != (controller.Event{Work: "w", Generation: 3, Deleted: true, Changed: true}) {
			b.Errorf("the last event is %+v", last)
		}
	})
}

// TestNewSpecWithPreviousGeneration checks that a new spec is applied although a hub that lost its state gives it the
// generation of the previous spec.
func TestNewSpecWithPreviousGeneration(t *testing.T) {
	run(t, nil, func(b *bench) {
		b.create("w", nil)
		b.forget() // without a wait for its resync
		b.create("w", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		})
		if n := b.count(b.applied, "w"); n != 2 || b.get("w").Generation != 1 {
			b.Errorf("applied %d times, in generation %d", n, b.get("w").Generation)
		}
		b.reports("w", workv1.WorkApplied, metav1.ConditionTrue, "") // for the hub's generation
	})
}

// TestRetry checks that a failed work is retried with growing pauses, and immediately when the work
// changes.
func TestRetry(t *testing.T) {
	failed := func(w *workv1.ManifestWork) spoke.Result {
		return spoke.Result{Err: fmt.Errorf("no, says the server: %d", w.Generation)}
	}
	run(t, func(_ *controller.Options, c *cluster) { c.apply = failed }, func(b *bench) {
		b.create("w", nil)
		b.reports("w", workv1.WorkApplied, metav1.ConditionFalse, "no, says the server: 1")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		n := b.count(b.applied, "w")
		if n < 15 || n > 25 {
			b.Errorf("tried %d times in ten minutes", n)
		}
		version := b.get("w").ResourceVersion
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if b.get("w").ResourceVersion != version {
			b.Error("the status was written although nothing has changed")
		}
		w := b.get("w")
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		if _, err := b.works.Update(b.Context(), w, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		b.reports("w", workv1.WorkApplied, metav1.ConditionFalse, "no, says the server: 2")
	})
}

// TestDegraded checks that a work becomes degraded by time alone.
func TestDegraded(t *testing.T) {
	unready := func(*workv1.ManifestWork) spoke.Result {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "d", "namespace": "n"}}}
		return spoke.Result{
			Outcomes: []spoke.Outcome{
				{Manifest: manifest.Manifest{Object: obj, Key: appliedwork.Key{Group: "apps", Kind: "Deployment", Namespace: "n",
					Name: "d"}}, Live: obj},
			},
		}
	}
	run(t, func(_ *controller.Options, c *cluster) { c.apply = unready }, func(b *bench) {
		b.create("w", nil)
		b.reports("w", workv1.WorkDegraded, metav1.ConditionFalse, "")
		time.Sleep(time.Minute)
		b.settle()
		b.reports("w", workv1.WorkDegraded, metav1.ConditionTrue, "")
		if n := b.count(b.applied, "w"); n != 2 {
			b.Errorf("served %d times", n)
		}
	})
}

// TestPoll checks that an object without a watch is polled.
func TestPoll(t *testing.T) {
	there := func(*workv1.ManifestWork) spoke.Result {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "c", "namespace": "n"}}}
		return spoke.Result{
			Outcomes: []spoke.Outcome{
				{Manifest: manifest.Manifest{Object: obj, Key: appliedwork.Key{Kind: "ConfigMap", Namespace: "n", Name: "c"}},
					Live: obj},
			},
		}
	}
	run(t, func(o *controller.Options, c *cluster) { c.apply, o.PollInterval = there, time.Minute }, func(b *bench) {
		b.create("w", nil)
		time.Sleep(10 * time.Minute)
		b.settle()
		if n := b.count(b.applied, "w"); n != 11 {
			b.Errorf("served %d times in ten minutes", n)
		}
	})
}

// TestExpire checks that the agent removes the objects of a finished work after its TTL and reports
// it. Over a broker, the agent cannot delete the work.
func TestExpire(t *testing.T) {
	run(t, nil, func(b *bench) {
		ttl := int64(60)
		finished := func(*workv1.ManifestWork) spoke.Result {
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
				"metadata": map[string]any{"name": "p", "namespace": "n"}, "status": map[string]any{"phase": "Succeeded"}}}
			m := manifest.Manifest{Object: obj, Key: appliedwork.Key{Kind: "Pod", Namespace: "n", Name: "p"}}
			m.Config.ConditionRules = []workv1.ConditionRule{{Condition: workv1.ManifestComplete,
				Type: workv1.WellKnownConditionsType}}
			return spoke.Result{Outcomes: []spoke.Outcome{{Manifest: m, Live: obj}}}
		}
		b.mu.Lock()
		b.apply = finished
		b.mu.Unlock()
		b.create("w", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground,
				TTLSecondsAfterFinished: &ttl}
		})
		b.reports("w", workv1.WorkComplete, metav1.ConditionTrue, "")
		time.Sleep(50 * time.Second)
		b.settle()
		if n := b.count(b.removed, "w"); n != 0 {
			b.Error("it was removed too early")
		}
		time.Sleep(10 * time.Second)
		b.settle()
		b.reports("w", workv1.WorkAvailable, metav1.ConditionFalse, status.ReasonExpired)
		if c := meta.FindStatusCondition(b.get("w").Status.ResourceStatus.Manifests[0].Conditions,
			workv1.ManifestAvailable); c.Status != metav1.ConditionFalse || c.Reason != status.ReasonExpired {
			b.Errorf("the manifest is %+v", c)
		}
		version := b.get("w").ResourceVersion
		time.Sleep(time.Hour)
		b.settle()
		if n := b.count(b.removed, "w"); n == 0 || b.get("w").ResourceVersion != version {
			b.Errorf("removed %d times; the work has changed since", n)
		}
		if err := b.works.Delete(b.Context(), "w", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.settle()
		if _, err := b.works.Get(b.Context(), "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("it is there: %v", err)
		}
	})
}

// TestEvict checks that works that the hub does not have are evicted after the grace period, if the
// options enable it.
func TestEvict(t *testing.T) {
	for _, evicts := range []bool{true, false} {
		run(t, func(o *controller.Options, c *cluster) {
			o.Evicts, c.recorded, c.grace = evicts, []string{"lost"}, time.Hour
		}, func(b *bench) {
			b.create("there", nil)
			time.Sleep(59 * time.Minute)
			synctest.Wait()
			before := b.count(b.evicted, "lost")
			time.Sleep(2 * time.Minute)
			b.settle()
			after := b.count(b.evicted, "lost")
			if want := map[bool][2]int{true: {1, 2}, false: {0, 0}}[evicts]; before != want[0] || after != want[1] ||
				b.count(b.evicted, "there") > 0 {
				b.Errorf("evicts %v: %d calls, then %d", evicts, before, after)
			}
		})
	}
}

// unserved is a hub that does not serve the API of works, like an API server that starts. Each get
// of a work returns a generic 404.
type unserved struct {
	workclientset.Interface
	asked *atomic.Int32
}

func (u unserved) WorkV1() worktyped.WorkV1Interface {
	return unservedGroup{u.Interface.WorkV1(), u.asked}
}

type unservedGroup struct {
	worktyped.WorkV1Interface
	asked *atomic.Int32
}

func (u unservedGroup) ManifestWorks(namespace string) worktyped.ManifestWorkInterface {
	return unservedWorks{u.WorkV1Interface.ManifestWorks(namespace), u.asked}
}

type unservedWorks struct {
	worktyped.ManifestWorkInterface
	asked *atomic.Int32
}

func (u unservedWorks) Get(_ context.Context, name string, _ metav1.GetOptions) (*workv1.ManifestWork, error) {
	u.asked.Add(1)
	return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", workv1.Resource("manifestworks"), name,
		"404 page not found", 0, true)
}

// TestNotEvicted checks that a work is not evicted if the hub does not serve the API of works.
func TestNotEvicted(t *testing.T) {
	var asked atomic.Int32
	run(t, func(o *controller.Options, c *cluster) {
		o.Works = unserved{Interface: o.Works, asked: &asked}
		o.Evicts, c.recorded, c.grace = true, []string{"lost"}, time.Hour
	}, func(b *bench) {
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := b.count(b.evicted, "lost"); n > 0 || asked.Load() == 0 {
			b.Errorf("%d calls, the hub was asked %d times", n, asked.Load())
		}
	})
}

func TestNew(t *testing.T) {
	if _, err := controller.New(controller.Options{}); err == nil {
		t.Error("nothing is required")
	}
}
