// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// drawWaves returns the text of an app with objects in waves. Each object has one of two values.
func drawWaves(t *rapid.T) string {
	text := "web@c1"
	for _, name := range []string{"t", "u", "v", "w", "x", "y"} {
		if rapid.IntRange(0, 4).Draw(t, "there") > 0 {
			text += fmt.Sprintf(" %d/%s=%d", rapid.IntRange(-1, 2).Draw(t, "wave"), name,
				rapid.IntRange(1, 2).Draw(t, "value"))
		}
	}
	return text
}

// waveWatch checks each call of the cluster against the waves of the event in progress.
type waveWatch struct {
	t       *testing.T
	cluster *fake.Cluster
	applies map[appcontext.Object]int // waves of the objects that the event applies
	stays   map[appcontext.Object]int // waves of the unchanged objects, if the event applies other objects of the wave
	deletes map[appcontext.Object]int // waves of the objects that the event deletes
	applied map[appcontext.Object]bool
	ready   map[appcontext.Object]bool
}

// begin prepares for an event from one context to another context. Either context may be nil.
func (w *waveWatch) begin(from, to *appcontext.AppContext) {
	w.applies, w.stays, w.deletes = map[appcontext.Object]int{}, map[appcontext.Object]int{},
		map[appcontext.Object]int{}
	w.applied = map[appcontext.Object]bool{}
	waves := map[int]bool{}
	d := appcontext.Diff(from, to, nil)
	each := func(c *appcontext.AppContext, f func(appcontext.Identity, appcontext.Resource)) {
		if c == nil {
			return
		}
		for _, r := range c.Apps[0].Clusters[0].Resources {
			f(appcontext.Identity{Cluster: c.Apps[0].Clusters[0].ClusterID, Object: r.Object}, r)
		}
	}
	each(to, func(id appcontext.Identity, r appcontext.Resource) {
		if d.Needs(id) {
			w.applies[r.Object] = r.Wave
			waves[r.Wave] = true
		}
	})
	each(to, func(id appcontext.Identity, r appcontext.Resource) {
		if waves[r.Wave] && !d.Needs(id) {
			w.stays[r.Object] = r.Wave
		}
	})
	each(from, func(id appcontext.Identity, r appcontext.Resource) {
		if _, gone := d.Gone[id]; gone {
			w.deletes[r.Object] = r.Wave
		}
	})
}

func (w *waveWatch) check(verb fake.Verb, batch connector.Batch) error {
	for _, r := range batch.Resources {
		switch verb {
		case fake.VerbApply:
			for o, wave := range w.applies {
				if wave < w.applies[r.Object] && (!w.applied[o] || !w.ready[o]) {
					w.t.Errorf("%s of wave %d is applied before %s of wave %d is ready", r.Name, w.applies[r.Object],
						o.Name, wave)
				}
			}
			for o, wave := range w.stays {
				if wave < w.applies[r.Object] && !w.ready[o] {
					w.t.Errorf("%s of wave %d is applied before %s, which stays in wave %d, is ready", r.Name,
						w.applies[r.Object], o.Name, wave)
				}
			}
			w.applied[r.Object] = true
		case fake.VerbDelete:
			there := w.cluster.Objects()
			for o, wave := range w.deletes {
				if _, left := there[o]; left && wave > w.deletes[r.Object] {
					w.t.Errorf("%s of wave %d is deleted before %s of wave %d is gone", r.Name, w.deletes[r.Object],
						o.Name, wave)
				}
			}
		}
	}
	return nil
}

// finish makes one object after another ready, in the order of picks, and waits for the end of the
// event.
func (w *waveWatch) finish(s *scene, ref rsync.EventRef, picks []int) {
	for round := range 40 {
		time.Sleep(time.Minute)
		w.cluster.Finalize()
		var waiting []appcontext.Object
		for _, name := range []string{"t", "u", "v", "w", "x", "y"} {
			o := object("ConfigMap", name)
			if _, there := w.cluster.Objects()[o]; there && !w.ready[o] {
				waiting = append(waiting, o)
			}
		}
		if len(waiting) > 0 {
			o := waiting[picks[round%len(picks)]%len(waiting)]
			w.ready[o] = true
			w.cluster.SetReady(o, true, false)
		}
	}
	s.done(ref, nil)
}

// TestWavesModel: random apps with waves are instantiated and updated. No object is applied before
// the lower waves with changes are ready. No object is deleted before the higher waves are deleted.
// After each event the cluster has the objects of its context.
func TestWavesModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		before, after := drawWaves(rt), drawWaves(rt)
		picks := rapid.SliceOfN(rapid.IntRange(0, 5), 6, 6).Draw(rt, "picks")
		unready := rapid.SliceOfN(rapid.SampledFrom([]string{"t", "u", "v", "w", "x", "y"}), 0, 3).Draw(rt, "unready")
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{})
			a, b := parse(t, "a", before), parse(t, "b", after)
			s.create("a", before)
			s.create("b", after)
			w := &waveWatch{t: t, cluster: s.clusters.Cluster("edge", "c1"), ready: map[appcontext.Object]bool{}}
			w.cluster.SetUnready(always)
			w.cluster.SetFinalizer(true)
			w.cluster.Intercept(w.check)
			w.begin(nil, a)
			w.finish(s, s.ref(s.engine.Instantiate(t.Context(), "a")), picks)
			s.shows("c1", plain(before))
			for _, name := range unready {
				w.ready[object("ConfigMap", name)] = false
				w.cluster.SetReady(object("ConfigMap", name), false, false)
			}
			w.begin(a, b)
			w.finish(s, s.ref(s.engine.Update(t.Context(), "a", "b")), picks)
			s.shows("c1", plain(after))
			w.begin(b, nil)
			w.finish(s, s.ref(s.engine.Terminate(t.Context(), "b")), picks)
			s.shows("c1", "")
		})
		if t.Failed() {
			rt.Fatalf("before %q, after %q, unready %v, picks %v", before, after, unready, picks)
		}
	})
}

// plain returns the objects of a text from drawWaves, without their waves.
func plain(text string) string {
	var out []string
	for _, field := range strings.Fields(text)[1:] {
		_, object, _ := strings.Cut(field, "/")
		out = append(out, object)
	}
	return strings.Join(out, " ")
}

// playWaves plays a story with waves and delete policies. Like story.play, it returns the states
// and the objects.
func (s *story) playWaves() told {
	t := s.t
	for id, text := range map[string]string{
		"a": "web@c1 pre-install+before-hook-creation!1/q=1 pre-install+hook-succeeded!p=1 x=1 1/y=1 " +
			"post-install+hook-succeeded!r=1",
		"b": "web@c1 pre-install+before-hook-creation!1/q=2 pre-delete+before-hook-creation+hook-succeeded!d=1 x=2 2/z=1",
	} {
		if err := s.user.Create(t.Context(), parse(t, id, text)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.engines(ctx)
	}()
	out := told{}
	for i, event := range []func() (rsync.EventRef, error){
		func() (rsync.EventRef, error) { return s.user.Instantiate(ctx, "a") },
		func() (rsync.EventRef, error) { return s.user.Update(ctx, "a", "b") },
		func() (rsync.EventRef, error) { return s.user.Terminate(ctx, "b") },
	} {
		ref, err := event()
		if err != nil {
			t.Fatal(err)
		}
		limited, stop := context.WithTimeout(ctx, time.Hour)
		if _, err := s.user.Wait(limited, ref); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		stop()
		out.objects += fmt.Sprintf("%d: %s\n", i, objectsOn(s.clusters, "c1"))
	}
	cancel()
	<-ended
	out.transitions = s.transitionsOf("a", "b")
	return out
}

// TestCrashAtEveryWriteOfWaves crashes an engine before and after each write of an app with waves
// and delete policies. The states and objects are the same as without a crash.
func TestCrashAtEveryWriteOfWaves(t *testing.T) {
	t.Parallel()
	var want told
	var writes int
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		want = s.playWaves()
		writes = s.writes
	})
	if objects := "0: q=1 x=1 y=1\n1: q=2 x=2 z=1\n2: \n"; want.objects != objects || writes < 10 {
		t.Fatalf("%d writes led to\n%s", writes, want.objects)
	}
	for n := 1; n <= writes && !t.Failed(); n++ {
		for _, verdict := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter} {
			plan := func(i int, _ []store.Op) storetest.Verdict {
				if i == n {
					return verdict
				}
				return storetest.VerdictPass
			}
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, plan)
				if got := s.playWaves(); got != want {
					t.Errorf("crash at write %d: got\n%s%s\nwant\n%s%s", n, got.transitions, got.objects,
						want.transitions, want.objects)
				}
				if s.crashs != 1 {
					t.Errorf("%d crashes at write %d", s.crashs, n)
				}
			})
		}
	}
}

// TestCrashWhileHooksAreAwaited ends an engine at each call of an app with hooks and waves, also
// while it writes nothing. The next engine repeats the phases, with the same result.
func TestCrashWhileHooksAreAwaited(t *testing.T) {
	const text = "web@c1 pre-install+before-hook-creation+hook-succeeded!p=1 x=1 1/y=1"
	for calls := 1; calls <= 12; calls++ {
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t)
			if err := s.user.Create(t.Context(), parse(t, "a", text)); err != nil {
				t.Fatal(err)
			}
			c := s.clusters.Cluster("edge", "c1")
			ref, err := s.user.Instantiate(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			var seen atomic.Int64
			crash := make(chan struct{})
			c.Intercept(func(fake.Verb, connector.Batch) error {
				if seen.Add(1) == int64(calls) {
					close(crash)
				}
				return nil
			})
			_, stop := startEngine(t, s.memory, s.clusters, rsync.Options{})
			c.SetDelay(time.Second)
			select {
			case <-crash:
			case <-time.After(time.Hour):
			}
			stop()
			_, stop = startEngine(t, s.memory, s.clusters, rsync.Options{})
			defer stop()
			limited, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if _, err := s.user.Wait(limited, ref); err != nil {
				t.Errorf("after a crash in call %d: %v", calls, err)
			}
			if got := objectsOn(s.clusters, "c1"); got != "x=1 y=1" {
				t.Errorf("after a crash in call %d the cluster has %q", calls, got)
			}
		})
	}
}
