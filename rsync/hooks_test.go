// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// anywhere returns transitions in which an update may begin in each state without an event in
// progress.
func anywhere() rsync.Transitions {
	settled := []rsync.State{
		rsync.Created, rsync.Instantiated, rsync.InstantiateFailed, rsync.Updated, rsync.UpdateFailed, rsync.Terminated,
		rsync.TerminationFailed,
	}
	out := slices.Clone(rsync.TransitionsDefault)
	for i := range out {
		if e := out[i].Event; e == rsync.Update || e == rsync.UpdateDelete {
			out[i].From = settled
		}
	}
	return out
}

// halt stops contexts. After all of their events have ended, it clears the stops.
func (s *scene) halt(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if err := s.engine.Stop(s.t.Context(), id); err != nil {
			s.t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	for _, id := range ids {
		status, err := s.engine.Status(s.t.Context(), id)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range status.Queue {
			if !e.Status.Final() {
				s.t.Fatalf("%s of %s is %s after Stop", e.Event, id, e.Status)
			}
		}
		if err := s.engine.ClearStop(s.t.Context(), id); err != nil {
			s.t.Fatal(err)
		}
	}
}

func isJob(o appcontext.Object) bool { return o.Kind == "Job" }

// TestInterruptedHooks: the interrupted end of an app leaves hooks on a cluster. The next update
// deletes these hooks, unless the new context has them. It runs the hooks only if the app ends with
// objects left to delete. The update applies everything, because the update before it failed.
func TestInterruptedHooks(t *testing.T) {
	const before = "web@c1 a=1 b=1 pre-delete!bye=1 post-delete!gone=1"
	for name, tt := range map[string]struct {
		to, want string // the objects on c1 after the update
		verbs    string // the calls of c1 for the update
	}{
		"another app has the objects": {
			"db@c1 a=1 b=1", "a=1 b=1", "Apply a, Apply b, Delete gone, Delete bye"},
		"and there is another cluster": {
			"db@c1 a=1 b=1; web@c2 x=1", "a=1 b=1", "Apply a, Apply b, Delete gone, Delete bye"},
		"the app keeps its name": {
			"web@c1 a=1 b=1", "a=1 b=1", "Apply a, Apply b, Delete gone, Delete bye"},
		"and loses an object": {"web@c1 a=1", "a=1", "Apply a, Delete b, Delete gone, Delete bye"},
		"and has the hook still": {"web@c1 a=1 b=1 pre-delete!bye=1", "a=1 b=1 bye=1",
			"Apply a, Apply b, Delete gone"},
		"another app has the hook": {"db@c1 a=1 b=1 post-delete!bye=1", "a=1 b=1 bye=1",
			"Apply a, Apply b, Delete gone"},
		"the hook is one that comes now": {"web@c1 a=1 b=1 pre-install!bye=2", "a=1 b=1 bye=2",
			"Apply bye, Apply a, Apply b, Delete gone"},
		"the app leaves, and its hook runs": {
			"db@c1 c=1", "c=1", "Apply c, Apply bye, Delete b, Delete a, Apply gone, Delete gone, Delete bye"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				c := s.clusters.Cluster("edge", "c1")
				s.create("a", before)
				s.create("none", "other@c3 z=1")
				s.create("to", tt.to)
				s.done(s.engine.Instantiate(t.Context(), "a"))
				c.SetUnready(isJob)
				s.ref(s.engine.Update(t.Context(), "a", "none"))
				time.Sleep(time.Minute)
				s.shows("c1", "a=1 b=1 bye=1")
				c.SetReady(object("Job", "bye"), true, false)
				time.Sleep(time.Minute)
				s.shows("c1", "bye=1 gone=1") // the update waits for the second hook
				s.halt("a", "none")
				s.state("a", rsync.UpdateFailed)
				c.SetUnready(nil)
				s.done(s.engine.Instantiate(t.Context(), "a"))
				c.Forget()
				s.done(s.engine.Update(t.Context(), "a", "to"))
				s.shows("c1", tt.want)
				if got := s.verbs("c1"); got != tt.verbs {
					t.Errorf("it did %s, want %s", got, tt.verbs)
				}
				s.done(s.engine.Terminate(t.Context(), "to"))
				s.shows("c1", "")
			})
		})
	}
}

// TestUpdateAndTerminateWithOneHook: the new context of an update is terminated, and waits for a
// hook of both contexts. The end of the update does not delete that hook.
func TestUpdateAndTerminateWithOneHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 a=1 b=1 pre-delete!bye=1")
		s.create("b", "web@c1 a=1 pre-delete!bye=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		c.SetUnready(isJob)
		c.SetFinalizer(true)
		update := s.ref(s.engine.Update(t.Context(), "a", "b"))
		time.Sleep(time.Minute) // the update waits until b is deleted
		terminate := s.ref(s.engine.Terminate(t.Context(), "b"))
		time.Sleep(time.Minute)
		s.shows("c1", "a=1 b=1 bye=1")
		c.SetFinalizer(false)
		c.Finalize()
		s.done(update, nil)
		c.SetReady(object("Job", "bye"), true, false)
		s.done(terminate, nil)
		s.shows("c1", "")
	})
}

// TestInterruptedHooksLeaveNoObjects: updates between random contexts with hooks are stopped
// halfway. Each remaining context is then updated to the last context. Only the objects of the last
// context exist, and no object exists after its Terminate.
func TestInterruptedHooksLeaveNoObjects(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(3, 4).Draw(rt, "contexts")
		texts := make([]string, n)
		for i := range texts {
			texts[i] = drawHooks(rt)
		}
		walk := rapid.SliceOfN(rapid.IntRange(0, n-1), 3, 6).Draw(rt, "walk")
		ready := rapid.SliceOfN(rapid.IntRange(0, 3), len(walk), len(walk)).Draw(rt, "ready")
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil,
				rsync.Options{Transitions: anywhere(), Comparer: func(_, _ *appcontext.Resource) bool { return true }})
			w := &interrupted{scene: s, texts: texts}
			for i, text := range texts {
				w.ids = append(w.ids, fmt.Sprint("id", i))
				s.create(w.ids[i], text)
			}
			s.done(s.engine.Instantiate(t.Context(), w.ids[walk[0]]))
			for i, next := range walk[1:] {
				w.update(walk[i], next, ready[i])
			}
			w.reach(walk[len(walk)-1])
			if t.Failed() {
				t.Logf("walk %v, ready %v of %q", walk, ready, texts)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// drawHooks returns the text of a context with objects and hooks on two clusters.
func drawHooks(t *rapid.T) string {
	text := ""
	for c := range 2 {
		apps := map[string]string{}
		for _, name := range []string{"u", "v"} {
			if app := rapid.SampledFrom([]string{"", "a1", "a2"}).Draw(t, "app"); app != "" {
				apps[app] += " " + name + "=1"
			}
		}
		for _, name := range []string{"j", "k"} {
			if app := rapid.SampledFrom([]string{"", "a1", "a2"}).Draw(t, "app"); app != "" {
				hook := rapid.SampledFrom([]string{"pre-install", "pre-delete", "post-delete"}).Draw(t, "hook")
				apps[app] += " " + hook + "!" + name + "=1"
			}
		}
		for _, app := range slices.Sorted(maps.Keys(apps)) {
			text += fmt.Sprintf("%s@c%d%s;", app, c, apps[app])
		}
	}
	return text
}

type interrupted struct {
	*scene
	texts, ids []string
}

// update begins an update, and stops it while it waits for jobs. Before the stop, all objects
// become ready as often as ready indicates.
func (w *interrupted) update(from, to, ready int) {
	w.t.Helper()
	if from == to {
		return
	}
	for _, c := range w.both() {
		c.SetUnready(isJob)
	}
	w.ref(w.engine.Update(w.t.Context(), w.ids[from], w.ids[to]))
	for range ready {
		time.Sleep(time.Minute)
		for _, c := range w.both() {
			for o := range c.Objects() {
				c.SetReady(o, true, false)
			}
		}
	}
	time.Sleep(time.Minute)
	w.halt(w.ids...)
}

func (w *interrupted) both() []*fake.Cluster {
	return []*fake.Cluster{w.clusters.Cluster("edge", "c0"), w.clusters.Cluster("edge", "c1")}
}

// reach updates all contexts that may have objects to one context. It checks the objects of this
// context, and terminates it.
func (w *interrupted) reach(to int) {
	w.t.Helper()
	for _, c := range w.both() {
		c.SetUnready(nil)
		for o := range c.Objects() {
			c.SetReady(o, true, false)
		}
	}
	for i, id := range w.ids {
		status, err := w.engine.Status(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		if i != to && status.State != rsync.Created && status.State != rsync.Updated {
			w.done(w.engine.Update(w.t.Context(), id, w.ids[to]))
		}
	}
	w.done(w.engine.Instantiate(w.t.Context(), w.ids[to]))
	spec := parse(w.t, "spec", w.texts[to])
	for c, cluster := range w.both() {
		have := cluster.Objects()
		for i := range spec.Apps {
			in := spec.Apps[i].Cluster(appcontext.ClusterID{Provider: "edge", Name: fmt.Sprint("c", c)})
			if in == nil {
				continue
			}
			for _, r := range in.Resources {
				_, there := have[r.Object]
				if ends := r.Hook == appcontext.HookPreDelete || r.Hook == appcontext.HookPostDelete; !there && !ends {
					w.t.Errorf("c%d lacks %s", c, r.Object)
				}
				delete(have, r.Object)
			}
		}
		for o := range have {
			w.t.Errorf("c%d still has %s", c, o)
		}
	}
	w.done(w.engine.Terminate(w.t.Context(), w.ids[to]))
	for c := range w.both() {
		w.shows(fmt.Sprint("c", c), "")
	}
}

// TestHookIsDeletedWhileAppEnds: a hook is deleted by another writer while the end of its app waits
// for the hook. It is applied again.
func TestHookIsDeletedWhileAppEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		c := s.clusters.Cluster("edge", "c1")
		s.create("a", "web@c1 x=1 pre-delete!bye=1")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c.SetUnready(isJob)
		ref := s.ref(s.engine.Terminate(t.Context(), "a"))
		time.Sleep(time.Minute)
		s.shows("c1", "bye=1 x=1")
		hook := object("Job", "bye")
		c.SetObject(hook, nil)
		s.shows("c1", "x=1")
		time.Sleep(time.Minute)
		s.shows("c1", "bye=1 x=1")
		c.SetReady(hook, true, false)
		s.done(ref, nil)
		s.shows("c1", "")
	})
}
