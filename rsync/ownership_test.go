// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestTerminateLeavesObjectsOfOthers: an object goes when the last context ends that holds it, whichever that
// is.
func TestTerminateLeavesObjectsOfOthers(t *testing.T) {
	for name, act := range map[string]func(s *scene){
		"of an update": func(s *scene) { s.done(s.engine.Update(s.t.Context(), "v1", "v2")) },
		"of an update whose second phase failed": func(s *scene) {
			c := s.clusters.Cluster("edge", "c1")
			c.Intercept(func(v fake.Verb, _ connector.Batch) error {
				if v == fake.Delete {
					return &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf("denied")}
				}
				return nil
			})
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(s.t.Context(), "v1", "v2")), nil)
			s.state("v1", rsync.UpdateFailed)
			c.Intercept(nil)
		},
		"of two contexts": func(s *scene) { s.done(s.engine.Instantiate(s.t.Context(), "v2")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("v1", "web@c1 x=1 y=1 old=1")
				s.create("v2", "web@c1 x=1 y=2; db@c1 new=1")
				s.done(s.engine.Instantiate(t.Context(), "v1"))
				act(s)
				s.done(s.engine.Terminate(t.Context(), "v1"))
				s.shows("c1", "new=1 x=1 y=2")
				s.done(s.engine.Terminate(t.Context(), "v2"))
				s.shows("c1", "")
			})
		})
	}
}

// TestLeftObjectsAreReported: the status names the objects that were left, and who holds them; so does the
// inventory.
func TestLeftObjectsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1 pre-delete!bye=1")
		s.create("b", "db@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "b"))
		c1 := appcontext.ClusterID{Provider: "edge", Name: "c1"}
		inventory := func() (out string) {
			held, err := s.engine.Inventory(t.Context(), c1)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range held {
				out += fmt.Sprintf("%s: %s of %s; ", h.Object.Name, h.App, h.AppContextID)
			}
			return out
		}
		if got, want := inventory(), "x: web of a; x: db of b; y: web of a; "; got != want {
			t.Errorf("the inventory has %q, want %q", got, want)
		}
		status := s.done(s.engine.Terminate(t.Context(), "a"))
		const want = "left for other app contexts: ConfigMap default/x (app db of app context b)"
		if got := status.Cluster("web", c1); got == nil || got.Message != want {
			t.Errorf("the status is %+v, want the message %q", got, want)
		}
		if got, want := inventory(), "x: db of b; "; got != want {
			t.Errorf("the inventory has %q, want %q", got, want)
		}
	})
}

// TestUpdateLeavesObjectsOfOthers: what an update drops stays while a third context holds it.
func TestUpdateLeavesObjectsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1")
		s.create("b", "web@c1 z=1")
		s.create("third", "db@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.done(s.engine.Instantiate(t.Context(), "third"))
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.shows("c1", "x=1 z=1")
		s.done(s.engine.Terminate(t.Context(), "third"))
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "")
	})
}

// TestNamespaceOfOthersIsLeft: a namespace, or a definition, stays while another context has objects in it.
func TestNamespaceOfOthersIsLeft(t *testing.T) {
	build := func(id string, manifests ...string) *appcontext.AppContext {
		b := appcontext.NewBuilder(id)
		for _, m := range manifests {
			b.App("web").Cluster("edge", "c1").Resource("edge", "c1", []byte(m))
		}
		c, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const (
		namespace  = "{apiVersion: v1, kind: Namespace, metadata: {name: default}}"
		other      = "{apiVersion: v1, kind: Namespace, metadata: {name: other}}"
		settings   = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}}"
		definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition," +
			" metadata: {name: foos.example.com}}"
		foo = "{apiVersion: example.com/v1, kind: Foo, metadata: {name: x}}"
	)
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		a, b := build("a", namespace, other, definition), build("b", settings, foo)
		for _, c := range []*appcontext.AppContext{a, b} {
			if err := s.engine.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			s.done(s.engine.Instantiate(t.Context(), c.ID))
		}
		s.clusters.Cluster("edge", "c1").Forget()
		s.done(s.engine.Terminate(t.Context(), "a"))
		if got, want := s.verbs("c1"), "Delete other"; got != want {
			t.Errorf("it did %q, want %q", got, want)
		}
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.clusters.Cluster("edge", "c1").Forget()
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c1").Forget()
		s.done(s.engine.Terminate(t.Context(), "a"))
		if got, want := s.verbs("c1"), "Delete foos.example.com, Delete other, Delete default"; got != want {
			t.Errorf("it did %q, want %q", got, want)
		}
	})
}

// TestHandOver: what is left gets the manifest of the context that holds it, that of an update rather than
// that of what it is from.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		s.create("b", "web@c1 x=2; web@c2 x=2")
		s.create("other", "db@c1 x=3")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c2").SetMode(fake.Refusing)
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "a", "b")), nil)
		s.done(s.engine.Instantiate(t.Context(), "other"))
		s.shows("c1", "x=3")
		s.done(s.engine.Terminate(t.Context(), "other"))
		s.shows("c1", "x=2")
		s.clusters.Cluster("edge", "c2").SetMode(fake.Works)
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "x=1")
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.shows("c1", "")
	})
}

// TestHandOverIsRefused: a manifest that the cluster refuses does not keep another context from being
// terminated.
func TestHandOverIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 x=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, b connector.Batch) error {
			if v == fake.Apply && b.AppContextID == "b" {
				return &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf("invalid")}
			}
			return nil
		})
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "a", "b")), nil)
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "")
	})
}

// TestHolderEndsWhileHandedOver: an object that its holder deletes just before it is handed over does not
// come back.
func TestHolderEndsWhileHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 x=2")
		s.done(s.engine.Instantiate(t.Context(), "b"))
		s.done(s.engine.Instantiate(t.Context(), "a"))
		began := make(chan struct{})
		s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, b connector.Batch) error {
			if v == fake.Apply && b.AppContextID == "b" {
				close(began)
				time.Sleep(30 * time.Second)
			}
			return nil
		})
		ref := s.ref(s.engine.Terminate(t.Context(), "a"))
		<-began
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "")
		s.done(ref, nil)
		s.shows("c1", "")
	})
}

// TestInstantiateWhileTerminating: a context that begins to hold an object while another one deletes it has
// it in the end, whichever of the two begins first.
func TestInstantiateWhileTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1")
		s.create("b", "db@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		deleting := make(chan struct{})
		c.Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.Delete {
				close(deleting)
				time.Sleep(30 * time.Second)
			}
			return nil
		})
		terminate := s.ref(s.engine.Terminate(t.Context(), "a"))
		<-deleting
		instantiate := s.ref(s.engine.Instantiate(t.Context(), "b"))
		time.Sleep(20 * time.Second)
		status, err := s.engine.Status(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if got := status.Cluster("db", appcontext.ClusterID{Provider: "edge", Name: "c1"}); got == nil ||
			!strings.Contains(got.Message, "Terminate of app context a (event 2) has to end") {
			t.Errorf("the status does not show what it waits for: %+v", got)
		}
		s.done(terminate, nil)
		s.done(instantiate, nil)
		s.shows("c1", "x=1")
	})
}

// TestHoldIsWrittenWithTheState: an engine that crashes right after the begin of an event has written that
// the context holds its objects, or does not.
func TestHoldIsWrittenWithTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.create("b", "db@c1 x=1")
		r.clusters.Cluster("edge", "c1").SetMode(fake.Unreachable)
		r.ref(r.user.Instantiate(t.Context(), "b"))
		r.before(has("/context/b/queue/", "InProgress"), func() {}, storetest.CrashAfter)
		time.Sleep(time.Minute)
		held, err := r.user.Inventory(t.Context(), appcontext.ClusterID{Provider: "edge", Name: "c1"})
		if err != nil || len(held) != 1 || held[0].AppContextID != "b" {
			t.Errorf("held are %v, %v", held, err)
		}
	})
}

// TestInventoryIsSmall: the inventory takes few bytes for an object, in few records.
func TestInventoryIsSmall(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	engine, err := rsync.New(memory, fake.New(), rsync.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const objects = 2000
	if err := engine.Create(t.Context(), parse(t, "a", many("web", "c1", objects))); err != nil {
		t.Fatal(err)
	}
	result, err := memory.Range(t.Context(), "/rsync/inventory/edge+c1/")
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, kv := range result.KVs {
		size += len(kv.Key) + len(kv.Value)
	}
	t.Logf("%d objects take %d records and %d bytes", objects, len(result.KVs), size)
	if len(result.KVs) != 1 || size > 9*objects {
		t.Errorf("%d objects take %d records and %d bytes", objects, len(result.KVs), size)
	}
}

// TestDeleteOfManyClusters: also a context that takes several transactions to delete leaves no key, wherever
// that crashes.
func TestDeleteOfManyClusters(t *testing.T) {
	text := ""
	for i := range 200 {
		text += fmt.Sprintf("web@c%d x=1;", i)
	}
	for n := 1; n < 6; n++ {
		synctest.Test(t, func(t *testing.T) {
			memory := memstore.New(memstore.Options{})
			user, _ := rsync.New(memory, fake.New(), rsync.Options{})
			if err := user.Create(t.Context(), parse(t, "a", text)); err != nil {
				t.Fatal(err)
			}
			crashing, _ := rsync.New(storetest.NewFaults(memory, func(i int, _ []store.Op) storetest.Verdict {
				if i == n {
					return storetest.CrashAfter
				}
				return storetest.Pass
			}), fake.New(), rsync.Options{})
			_ = crashing.Delete(t.Context(), "a")
			time.Sleep(time.Minute)
			_, stop := startEngine(t, memory, fake.New(), rsync.Options{})
			time.Sleep(20 * time.Minute)
			stop()
			if got := memory.Len(); got != 0 {
				t.Errorf("%d keys are left after a crash at write %d", got, n)
			}
		})
	}
}

// TestOwnership: random events on contexts that have objects in common, all at the same time, on clusters
// that refuse and delay, with engines that crash. In the end each instantiated context has all of its
// objects, what is on a cluster is held, or was not deleted by an event that failed, and when all are
// terminated nothing is left.
func TestOwnership(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "contexts")
		texts := make([]string, n)
		for i := range texts {
			texts[i], _ = drawText(rt)
		}
		steps := rapid.SliceOfN(rapid.Custom(drawStep(n)), 1, 12).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, texts)
			for _, s := range steps {
				w.step(s)
			}
			w.settle()
			w.check()
			w.terminateAll()
			w.stop()
			if t.Failed() {
				t.Logf("contexts %q, steps %+v", texts, steps)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// step is one thing that happens in a world.
type step struct {
	What     string
	ID, Next int
	Cluster  int
	Wait     time.Duration
}

func drawStep(n int) func(*rapid.T) step {
	return func(t *rapid.T) step {
		return step{
			What: rapid.SampledFrom([]string{
				"instantiate", "instantiate", "terminate", "terminate", "update", "update", "read",
				"crash", "refuse", "work", "slow",
			}).Draw(t, "what"),
			ID:      rapid.IntRange(0, n-1).Draw(t, "id"),
			Next:    rapid.IntRange(0, n-1).Draw(t, "next"),
			Cluster: rapid.IntRange(0, 2).Draw(t, "cluster"),
			Wait: rapid.SampledFrom([]time.Duration{
				0, time.Millisecond, 300 * time.Millisecond, time.Minute,
			}).Draw(t, "wait"),
		}
	}
}

// world has contexts, clusters, and an engine that crashes and is replaced.
type world struct {
	*scene
	ids   []string
	specs []*appcontext.AppContext
	kill  func()
}

func newWorld(t *testing.T, texts []string) *world {
	memory := memstore.New(memstore.Options{})
	w := &world{scene: &scene{t: t, memory: memory, clusters: fake.New()}}
	var err error
	if w.engine, err = rsync.New(memory, w.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		w.ids = append(w.ids, fmt.Sprint("id", i))
		w.create(w.ids[i], text)
		w.specs = append(w.specs, parse(t, w.ids[i], text))
	}
	w.start()
	_, stop := startEngine(t, memory, w.clusters, rsync.Options{Name: "steady", LeaseTTL: time.Second})
	w.stop = func() {
		w.kill()
		stop()
	}
	return w
}

// start replaces the engine that crashes.
func (w *world) start() {
	faults := storetest.NewFaults(w.memory, nil)
	engine, err := rsync.New(faults, w.clusters, rsync.Options{Name: "mortal", LeaseTTL: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	w.kill = func() {
		faults.Crash()
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) step(s step) {
	c := w.clusters.Cluster("edge", fmt.Sprint("c", s.Cluster))
	id, next := w.ids[s.ID], w.ids[s.Next]
	switch s.What {
	case "instantiate":
		w.ref(w.engine.Instantiate(w.t.Context(), id))
	case "terminate":
		w.ref(w.engine.Terminate(w.t.Context(), id))
	case "read":
		w.ref(w.engine.Read(w.t.Context(), id))
	case "update":
		if id != next {
			w.ref(w.engine.Update(w.t.Context(), id, next))
		}
	case "refuse":
		c.SetMode(fake.Refusing)
	case "slow":
		c.SetDelay(400 * time.Millisecond)
	case "work":
		c.SetMode(fake.Works)
		c.SetDelay(0)
	case "crash":
		w.kill()
		w.start()
	}
	time.Sleep(s.Wait)
}

// settle lets all clusters work, and waits until nothing is under way.
func (w *world) settle() {
	for c := range 3 {
		w.clusters.Cluster("edge", fmt.Sprint("c", c)).SetMode(fake.Works)
	}
	time.Sleep(time.Hour)
	for _, id := range w.ids {
		for _, e := range w.status(id).Queue {
			if !e.Status.Final() {
				w.t.Errorf("after an hour %s of %s is %s", e.Event, id, e.Status)
			}
		}
	}
}

func (w *world) status(id string) *rsync.Status {
	status, err := w.engine.Status(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

func (w *world) check() {
	for c := range 3 {
		cluster := appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", c)}
		have := w.clusters.Cluster("edge", cluster.Name).Objects()
		explained := map[appcontext.Object]bool{}
		for i, spec := range w.specs {
			state := w.status(w.ids[i]).State
			for _, a := range spec.Apps {
				in := a.Cluster(cluster)
				if in == nil {
					continue
				}
				for _, r := range in.Resources {
					explained[r.Object] = explained[r.Object] ||
						state != rsync.Created && state != rsync.Terminated && state != rsync.Updated
					if _, there := have[r.Object]; !there && state == rsync.Instantiated {
						w.t.Errorf("%s is Instantiated, and %s lacks %s", w.ids[i], cluster, r.Object)
					}
				}
			}
		}
		for o := range have {
			if !explained[o] {
				w.t.Errorf("%s has %s, which no context holds", cluster, o)
			}
		}
	}
}

// terminateAll ends all contexts, and demands that nothing is left.
func (w *world) terminateAll() {
	for _, id := range w.ids {
		if state := w.status(id).State; state != rsync.Created && state != rsync.Terminated {
			w.done(w.engine.Terminate(w.t.Context(), id))
		}
	}
	for c := range 3 {
		w.shows(fmt.Sprint("c", c), "")
	}
	for _, id := range w.ids {
		if err := w.engine.Delete(w.t.Context(), id); err != nil {
			w.t.Error(err)
		}
	}
	result, err := w.memory.Range(w.t.Context(), "/")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kv := range result.KVs {
		if !strings.HasPrefix(kv.Key, "/rsync/engine/") {
			w.t.Errorf("%s is left", kv.Key)
		}
	}
}
