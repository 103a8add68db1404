// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

func always(appcontext.Object) bool { return true }

// TestWaves: an Instantiate and a Terminate make the expected calls, wave by wave.
func TestWaves(t *testing.T) {
	for name, tt := range map[string]struct {
		text, up, down string
		order          rsync.DeleteOrder
	}{
		"without waves": {text: "pre-install!p=1 x=1 y=1 post-install!q=1",
			up: "Apply p, Apply x, Apply y, Apply q", down: "Delete q, Delete y, Delete x, Delete p"},
		"out of order": {text: "2/z=1 x=1 -1/a=1 2/y=1 b=1",
			up:   "Apply a, Apply x, Apply b, Apply z, Apply y",
			down: "Delete y, Delete z, Delete b, Delete x, Delete a"},
		"in the same order": {text: "1/y=1 x=1 1/z=1", order: rsync.DeleteOrderSame,
			up: "Apply x, Apply y, Apply z", down: "Delete x, Delete y, Delete z"},
		"hooks have weights of their own": {text: "1/y=1 x=1 pre-install!5/late=1 pre-install!-5/early=1 post-install!1/b=1 post-install!a=1",
			up:   "Apply early, Apply late, Apply x, Apply y, Apply a, Apply b",
			down: "Delete b, Delete a, Delete y, Delete x, Delete late, Delete early"},
		"hooks of the end": {text: "x=1 pre-delete!2/c=1 pre-delete!1/b=1 post-delete!1/e=1 post-delete!d=1",
			up: "Apply x", down: "Apply b, Apply c, Delete x, Apply d, Apply e, Delete e, Delete d, Delete c, Delete b"},
		"definitions": {text: "1/y=1 x=1 crd-install!2/b=1 crd-install!1/a=1",
			up: "Apply a, Apply b, Apply x, Apply y", down: "Delete y, Delete x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{DeleteOrder: tt.order})
				s.create("a", "web@c1 "+tt.text)
				s.done(s.engine.Instantiate(t.Context(), "a"))
				if got := s.verbs("c1"); got != tt.up {
					t.Errorf("Instantiate: %s, want %s", got, tt.up)
				}
				s.clusters.Cluster("edge", "c1").Forget()
				s.done(s.engine.Terminate(t.Context(), "a"))
				if got := s.verbs("c1"); got != tt.down {
					t.Errorf("Terminate: %s, want %s", got, tt.down)
				}
			})
		})
	}
}

// TestWavesAreAwaited: a wave, or a weight of hooks, begins after all objects of the previous one
// are ready, or deleted.
func TestWavesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 pre-install!2/q=1 pre-install!1/p=1 3/z=1 x1=1 1/y=1 x2=1; db<web@c1 d=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(func(o appcontext.Object) bool { return o.Name != "d" })
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		step := func(want string, o appcontext.Object) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := s.verbs("c1"); got != want {
				t.Errorf("before %s is ready: %s, want %s", o, got, want)
			}
			c.SetReady(o, true, false)
		}
		step("Apply p", object("Job", "p"))
		step("Apply p, Apply q", object("Job", "q"))
		step("Apply p, Apply q, Apply x1, Apply x2", object("ConfigMap", "x2"))
		step("Apply p, Apply q, Apply x1, Apply x2", object("ConfigMap", "x1"))
		step("Apply p, Apply q, Apply x1, Apply x2, Apply y", object("ConfigMap", "y"))
		s.done(ref, nil) // the last wave is not awaited: db only needs it to be applied
		if got, want := s.verbs("c1"), "Apply p, Apply q, Apply x1, Apply x2, Apply y, Apply z, Apply d"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		c.Forget()
		c.SetFinalizer(true)
		ref = s.ref(s.engine.Terminate(t.Context(), "a"))
		want := ""
		for _, next := range []string{"Delete d", ", Delete z", ", Delete y", ", Delete x2, Delete x1, Delete q",
			", Delete p"} {
			want += next
			time.Sleep(time.Minute)
			if got := s.verbs("c1"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			c.Finalize()
		}
		s.done(ref, nil)
		s.shows("c1", "")
	})
}

// TestWaitForWaveIsShown: the status names the object for which the next wave waits. An object that
// fails also fails the app. A Terminate ends the wait and deletes all objects.
func TestWaitForWaveIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 1/y=1")
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(always)
		ref := s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		status, err := s.engine.Status(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		web := status.Cluster("web", appcontext.ClusterID{Provider: "edge", Name: "c1"})
		if web == nil || web.Reason != rsync.ReasonNotReady || web.Message != "ConfigMap default/x is not ready yet" {
			t.Errorf("the status is %+v", web)
		}
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.fails(rsync.ReasonPreempted, ref, nil)
		s.shows("c1", "")
		ref = s.ref(s.engine.Instantiate(t.Context(), "a"))
		time.Sleep(time.Minute)
		c.SetReady(object("ConfigMap", "x"), false, true)
		s.fails(rsync.ReasonHookFailed, ref, nil)
		s.shows("c1", "x=1")
		s.done(s.engine.Terminate(t.Context(), "a"))
		s.shows("c1", "")
	})
}

// TestWavesOfUpdate: an update applies the changed objects in waves. A wave without changes is not
// awaited.
func TestWavesOfUpdate(t *testing.T) {
	const before = "web@c1 x=1 u=1 1/y=1 2/z=1"
	for name, tt := range map[string]struct {
		after, unready string
		waits, ready   string // the calls before unready is ready, and in the end
	}{
		"one wave":                  {"web@c1 x=1 u=1 1/y=2 2/z=1", "x", "Apply y", "Apply y"},
		"the first and last":        {"web@c1 x=2 u=1 1/y=1 2/z=2", "x", "Apply x", "Apply x, Apply z"},
		"an unchanged wave between": {"web@c1 x=2 u=1 1/y=1 2/z=2", "y", "Apply x, Apply z", "Apply x, Apply z"},
		"an unchanged object of a wave that changes": {"web@c1 x=2 u=1 1/y=2 2/z=1", "u", "Apply x",
			"Apply x, Apply y"},
		"another wave": {"web@c1 2/x=1 u=1 1/y=1 2/z=1", "u", "", ""},
		"what it leaves": {"web@c1 x=2", "x", "Apply x, Delete z, Delete y, Delete u",
			"Apply x, Delete z, Delete y, Delete u"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("a", before)
				s.create("b", tt.after)
				s.done(s.engine.Instantiate(t.Context(), "a"))
				c := s.clusters.Cluster("edge", "c1")
				c.SetReady(object("ConfigMap", tt.unready), false, false)
				c.SetUnready(always)
				c.Forget()
				ref := s.ref(s.engine.Update(t.Context(), "a", "b"))
				time.Sleep(time.Minute)
				if got := s.verbs("c1"); got != tt.waits {
					t.Errorf("while %s is not ready: %s, want %s", tt.unready, got, tt.waits)
				}
				c.SetReady(object("ConfigMap", tt.unready), true, false)
				s.done(ref, nil)
				if got := s.verbs("c1"); got != tt.ready {
					t.Errorf("%s, want %s", got, tt.ready)
				}
			})
		})
	}
}

// TestWavesAfterFailure: the update after a failed update applies all objects, in waves.
func TestWavesAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 1/y=1")
		s.create("b", "web@c1 x=2 1/y=1 2/z=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(always)
		c.SetReady(object("ConfigMap", "x"), false, false)
		ref := s.ref(s.engine.Update(t.Context(), "a", "b"))
		time.Sleep(time.Minute)
		c.SetReady(object("ConfigMap", "x"), false, true)
		s.fails(rsync.ReasonHookFailed, ref, nil)
		c.SetReady(object("ConfigMap", "x"), true, false)
		c.Forget()
		s.done(s.engine.Rollback(t.Context(), "b", "a"))
		if got, want := s.verbs("c1"), "Apply x, Apply y, Delete z"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		s.shows("c1", "x=1 y=1")
	})
}

// TestDiffOfDeletePolicies: a difference shows the effect of delete policies on hooks, and only the
// changed objects of waves.
func TestDiffOfDeletePolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 pre-install!old=1 pre-install!new=1 x=1 1/y=1")
		s.create("b", "web@c1 pre-install+before-hook-creation!old=2 pre-install+hook-succeeded!new=2 1/x=1 y=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		diff, err := s.engine.Diff(t.Context(), rsync.Update, "b", "a")
		if err != nil || diff.Err() != nil {
			t.Fatal(err, diff.Err())
		}
		got := ""
		for _, c := range diff.Clusters[0].Changes {
			got += fmt.Sprintf("%s %s: %s\n", c.Kind, c.Name, c.Message)
		}
		const want = "Update y: \n" +
			"Update new: the hook is deleted when it is done\n" +
			"Replace old: the hook is created again: an object of an earlier run is deleted first\n"
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		s.done(s.engine.Update(t.Context(), "a", "b"))
		s.shows("c1", "old=2 x=1 y=2")
	})
}
