// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestLifecycle: a context is instantiated, updated, rolled back, terminated and deleted.
func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1; web@c2 x=1; db@c1 d=1")
		s.create("b", "web@c1 y=2 z=1; db@c2 d=1; db@c1 x=1")
		s.state("a", rsync.Created)
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.state("a", rsync.Instantiated)
		s.shows("c1", "d=1 x=1 y=1")
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.state("a", rsync.Updated)
		s.state("b", rsync.Instantiated)
		s.shows("c1", "x=1 y=2 z=1")
		for _, c := range s.clusters.Cluster("edge", "c1").Calls() {
			if c.Verb == fake.VerbDelete && c.Object.Name == "x" {
				t.Error("x moved from web to db, and was deleted")
			}
		}
		s.shows("c2", "d=1")
		s.done(s.engine.Rollback(t.Context(), "b", "a"))
		s.state("a", rsync.Instantiated)
		s.state("b", rsync.Updated)
		s.shows("c1", "d=1 x=1 y=1")
		s.shows("c2", "x=1")
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.state("a", rsync.Terminated)
		s.shows("c1", "")
		s.shows("c2", "")
		for _, id := range []string{"a", "b"} {
			if err := s.engine.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		s.stop()
		if n := s.memory.Len(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// TestResourceOrder: resources are applied in order and deleted in reverse order. Dependencies
// apply in both directions. Hooks run at their stage, and are awaited.
func TestResourceOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web<db:Ready@c1 w1=1 w2=1; db@c1 pre-install!pre=1 post-install!post=1 d1=1 d2=1 pre-delete!bye=1 "+
			"post-delete!gone=1 crd-install!crd=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(func(o appcontext.Object) bool { return o.Kind == "Job" || o.Name == "d2" })
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		for _, step := range []struct{ verbs, ready, kind string }{
			{"Apply crd", "crd", "Job"},
			{"Apply crd, Apply pre", "pre", "Job"},
			{"Apply crd, Apply pre, Apply d1, Apply d2, Apply post", "post", "Job"},
			{"Apply crd, Apply pre, Apply d1, Apply d2, Apply post", "d2", "ConfigMap"},
		} {
			time.Sleep(time.Minute)
			if got := s.verbs("c1"); got != step.verbs {
				t.Errorf("before %s is ready: %s, want %s", step.ready, got, step.verbs)
			}
			c.SetReady(object(step.kind, step.ready), true, false)
		}
		s.done(ref, nil)
		c.SetUnready(nil)
		c.Forget()
		s.done(s.engine.Terminate(t.Context(), "a"))
		want := "Delete w2, Delete w1, Apply bye, Delete post, Delete d2, Delete d1, Delete pre, Apply gone, Delete gone, " +
			"Delete bye"
		if got := s.verbs("c1"); got != want {
			t.Errorf("deleted by %s, want %s", got, want)
		}
		s.shows("c1", "crd=1")
	})
}

// TestHookFails: a failed hook fails the event, and the apps that depend on the app of the hook.
func TestHookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web<db@c1 w=1; db@c1 pre-install!pre=1 d=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(func(o appcontext.Object) bool { return true })
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		c.SetReady(object("Job", "pre"), false, true)
		s.fails(rsync.ReasonHookFailed, ref, nil)
		s.state("a", rsync.InstantiateFailed)
		status, _ := s.engine.Status(t.Context(), "a")
		if got := status.Cluster("web", appcontext.ClusterID{Provider: "edge", Name: "c1"}); got == nil ||
			got.Reason != rsync.ReasonDependency {
			t.Errorf("the app that depends on it: %+v", got)
		}
		s.shows("c1", "pre=1")
	})
}

// TestRead: Read reports the resources that exist, and does not change the state.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 y=1")
		status := s.done(s.engine.Read(t.Context(), "a"))
		if status.State != rsync.Created || len(status.Clusters) != 1 || status.Clusters[0].Resources[0].Exists {
			t.Errorf("before: %+v", status)
		}
		s.done(s.engine.Instantiate(t.Context(), "a"))
		status = s.done(s.engine.Read(t.Context(), "a"))
		if status.State != rsync.Instantiated || !status.Clusters[0].Resources[1].Ready {
			t.Errorf("after: %+v", status)
		}
	})
}

// TestStop: Stop ends waits immediately, skips queued events and rejects new events. After
// ClearStop, events run again.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		first := s.ref(s.engine.Instantiate(t.Context(), "a"))
		second := s.ref(s.engine.Read(t.Context(), "a"))
		time.Sleep(time.Hour)
		s.state("a", rsync.Instantiating)
		began := time.Now()
		if err := s.engine.Stop(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		failure := s.failure(rsync.ReasonStopped, first, nil)
		if !errors.Is(failure, rsync.ErrStopped) {
			t.Errorf("%v is not ErrStopped", failure)
		}
		s.fails(rsync.ReasonStopped, second, nil)
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		s.state("a", rsync.InstantiateFailed)
		s.shows("c2", "x=1")
		if _, err := s.engine.Terminate(t.Context(), "a"); !errors.Is(err, rsync.ErrStopped) {
			t.Errorf("an event for a stopped context: %v", err)
		}
		if err := s.engine.ClearStop(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.shows("c1", "x=1")
	})
}

// TestTerminatePreempts: a Terminate ends waits, skips the events that were queued before it, and
// lets reachable clusters finish.
func TestTerminatePreempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 x=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		s.clusters.Cluster("edge", "c2").SetDelay(10 * time.Second)
		first := s.ref(s.engine.Instantiate(t.Context(), "a"))
		second := s.ref(s.engine.Read(t.Context(), "a"))
		time.Sleep(5 * time.Second)
		third := s.ref(s.engine.Terminate(t.Context(), "a"))
		s.fails(rsync.ReasonPreempted, first, nil)
		s.shows("c2", "x=1")
		if failure := s.failure(rsync.ReasonPreempted, second, nil); failure.Status != rsync.Skip {
			t.Errorf("what was queued before it is %s, want %s", failure.Status, rsync.Skip)
		}
		time.Sleep(time.Minute)
		s.state("a", rsync.Terminating)
		s.shows("c2", "")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		s.done(third, nil)
		s.state("a", rsync.Terminated)
	})
}

// TestInvalidState: an event that is not valid in the current state fails with InvalidState, and
// changes nothing.
func TestInvalidState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1")
		s.create("b", "web@c1 x=2")
		s.fails(rsync.ReasonInvalidState, s.ref(s.engine.Terminate(t.Context(), "a")), nil)
		s.state("a", rsync.Created)
		s.fails(rsync.ReasonInvalidState, s.ref(s.engine.Update(t.Context(), "a", "b")), nil)
		s.state("b", rsync.Created)
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.shows("c1", "x=1")
	})
}

// TestFailedUpdate: an update deletes nothing if its first phase fails.
func TestFailedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1; web@c2 y=1")
		s.create("b", "web@c1 x=2; web@c2 z=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeRefusing)
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "a", "b")), nil)
		time.Sleep(time.Minute)
		s.state("a", rsync.Instantiated)
		s.state("b", rsync.InstantiateFailed)
		s.shows("c1", "x=1")
		s.shows("c2", "y=1 z=1")
	})
}
