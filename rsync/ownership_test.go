// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestTerminateLeavesObjectsOfOthers: an object is deleted when the last context that holds it
// ends.
func TestTerminateLeavesObjectsOfOthers(t *testing.T) {
	for name, act := range map[string]func(s *scene){
		"of an update": func(s *scene) { s.done(s.engine.Update(s.t.Context(), "v1", "v2")) },
		"of an update whose second phase failed": func(s *scene) {
			c := s.clusters.Cluster("edge", "c1")
			c.Intercept(func(v fake.Verb, _ connector.Batch) error {
				if v == fake.VerbDelete {
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

// TestLeftObjectsAreReported: the status and the inventory name the objects that were left, and the
// contexts that hold them.
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

// TestUpdateLeavesObjectsOfOthers: an object that an update drops stays while a third context holds
// it.
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

// TestNextHolderKeepsObject: a context begins to delete an object while the object is left for that
// context. The object stays for the next context that holds it.
func TestNextHolderKeepsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1")
		s.create("b", "web@c1 x=1 y=2")
		s.create("c", "web@c1 x=3")
		for _, id := range []string{"a", "b", "c"} {
			s.done(s.engine.Instantiate(t.Context(), id))
		}
		var second rsync.EventRef
		s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, batch connector.Batch) error {
			if v == fake.VerbApply && batch.AppContextID == "b" { // the first Terminate leaves y for b
				s.clusters.Cluster("edge", "c1").Intercept(nil)
				second = s.ref(s.engine.Terminate(t.Context(), "b"))
				time.Sleep(time.Second)
			}
			return nil
		})
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.done(second, nil)
		s.shows("c1", "x=3")
		s.done(s.engine.Terminate(t.Context(), "c"))
		s.shows("c1", "")
	})
}

// TestNamespaceOfOthersIsLeft: a Namespace or a CustomResourceDefinition stays while another
// context has objects of it.
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

// TestHandOver: an object that is left gets the manifest of a context that holds it. After a failed
// update, the manifest of the new context has priority.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		s.create("b", "web@c1 x=2; web@c2 x=2")
		s.create("other", "db@c1 x=3")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c2").SetMode(fake.ModeRefusing)
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "a", "b")), nil)
		s.done(s.engine.Instantiate(t.Context(), "other"))
		s.shows("c1", "x=3")
		s.done(s.engine.Terminate(t.Context(), "other"))
		s.shows("c1", "x=2")
		s.clusters.Cluster("edge", "c2").SetMode(fake.ModeWorks)
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.shows("c1", "x=1")
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.shows("c1", "")
	})
}

// TestHandOverIsRefused: a context can be terminated even if the cluster refuses the manifest of
// the remaining holder.
func TestHandOverIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 x=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, b connector.Batch) error {
			if v == fake.VerbApply && b.AppContextID == "b" {
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

// TestHolderEndsWhileHandedOver: an object is not created again if its holder deletes it just
// before the handover.
func TestHolderEndsWhileHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 x=2")
		s.done(s.engine.Instantiate(t.Context(), "b"))
		s.done(s.engine.Instantiate(t.Context(), "a"))
		began := make(chan struct{})
		s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, b connector.Batch) error {
			if v == fake.VerbApply && b.AppContextID == "b" {
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

// TestInstantiateWhileTerminating: a context is instantiated while another context deletes a common
// object. The object exists in the end.
func TestInstantiateWhileTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1")
		s.create("b", "db@c1 x=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		deleting := make(chan struct{})
		c.Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.VerbDelete {
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

// TestHoldIsWrittenWithTheState: the transaction that begins an event also stores that the context
// holds its objects.
func TestHoldIsWrittenWithTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.create("a", "web@c1 x=1")
		r.create("b", "db@c1 x=1")
		r.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		r.ref(r.user.Instantiate(t.Context(), "b"))
		r.before(has("/context/b/queue/", "InProgress"), func() {}, storetest.VerdictCrashAfter)
		time.Sleep(time.Minute)
		held, err := r.user.Inventory(t.Context(), appcontext.ClusterID{Provider: "edge", Name: "c1"})
		if err != nil || len(held) != 1 || held[0].AppContextID != "b" {
			t.Errorf("held are %v, %v", held, err)
		}
	})
}

// TestInventoryIsSmall: the inventory of 2,000 objects is one record, with at most 9 bytes for each
// object.
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

// TestDeleteOfManyClusters: a Delete of several transactions leaves no key, also after a crash at
// any of its writes.
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
					return storetest.VerdictCrashAfter
				}
				return storetest.VerdictPass
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

// TestHolderEndsWhileClusterIsDead: a Terminate leaves an object for another context, and waits for
// a dead cluster. Meanwhile the other context is detached and terminated, and then perhaps deleted.
// The object is deleted too.
func TestHolderEndsWhileClusterIsDead(t *testing.T) {
	for _, value := range []string{"1", "2"} {
		for name, remove := range map[string]bool{"terminated": false, "deleted": true} {
			t.Run(fmt.Sprintf("%s, it has x=%s", name, value), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil, rsync.Options{})
					s.create("a", "web@c1 x=1 y=1")
					s.create("other", "base@c1 x="+value)
					s.done(s.engine.Instantiate(t.Context(), "a"))
					s.done(s.engine.Instantiate(t.Context(), "other"))
					c := s.clusters.Cluster("edge", "c1")
					c.SetMode(fake.ModeUnreachable)
					ref := s.ref(s.engine.Terminate(t.Context(), "a"))
					time.Sleep(time.Minute)
					s.must(s.engine.Detach(t.Context(), "other", edge("c1")[0]))
					s.done(s.engine.Terminate(t.Context(), "other"))
					if remove {
						s.must(s.engine.Delete(t.Context(), "other"))
					}
					c.SetMode(fake.ModeWorks)
					s.done(ref, nil)
					time.Sleep(time.Hour) // until the cleanup of the other context has ended
					s.shows("c1", "")
				})
			})
		}
	}
}
