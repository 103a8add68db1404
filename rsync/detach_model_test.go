// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestDetachModel: random events run on contexts with common objects. Clusters die, are detached
// and attached, and recover. Engines crash at random writes. In the end a detached context has no
// objects on its cluster, except those that other contexts hold. Each instantiated context has its
// objects on all other clusters. After all contexts are terminated, no object exists.
func TestDetachModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 3).Draw(rt, "contexts")
		texts := make([]string, n)
		for i := range texts {
			texts[i], _ = drawText(rt)
		}
		steps := rapid.SliceOfN(rapid.Custom(drawDetachStep(n)), 1, 16).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, texts)
			for _, s := range steps {
				w.detachStep(s)
			}
			w.settle()
			w.pending("")
			w.instantiateAttached()
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

func drawDetachStep(n int) func(*rapid.T) step {
	return func(t *rapid.T) step {
		s := drawStep(n)(t)
		s.What = rapid.SampledFrom([]string{
			"instantiate", "instantiate", "terminate", "update", "update", "read", "crash", "crash at", "refuse", "slow", "work",
			"work",
			"die", "die", "hang", "detach", "detach", "detach", "attach",
		}).Draw(t, "what")
		s.Write = rapid.IntRange(1, 12).Draw(t, "write")
		return s
	}
}

func (w *world) detachStep(s step) {
	id, c := w.ids[s.ID], onEdge(fmt.Sprint("c", s.Cluster))
	switch s.What {
	case "die":
		w.mode(c.Name, fake.ModeUnreachable)
	case "hang":
		w.mode(c.Name, fake.ModeBlackHole)
	case "detach":
		if err := w.engine.Detach(w.t.Context(), id, c); err != nil && !errors.Is(err, rsync.ErrNotFound) {
			w.t.Error(err)
		}
	case "attach":
		if err := w.engine.Attach(w.t.Context(), id, c); err != nil && !errors.Is(err, rsync.ErrNotFound) {
			w.t.Error(err)
		}
		w.attached = append(w.attached, id)
	case "crash at":
		w.kill()
		w.plan = func(n int, _ []store.Op) storetest.Verdict {
			return map[int]storetest.Verdict{s.Write: storetest.VerdictCrashBefore + storetest.Verdict(s.Write%2)}[n]
		}
		w.start()
		w.plan = nil
	default:
		w.step(s)
		return
	}
	time.Sleep(s.Wait)
}

// instantiateAttached instantiates the contexts to which a cluster was attached.
func (w *world) instantiateAttached() {
	for _, id := range w.attached {
		if w.status(id).State == rsync.Instantiated {
			w.done(w.engine.Instantiate(w.t.Context(), id))
		}
	}
}

// detachStory plays the story of TestCrashAtEveryWriteOfDetach.
func (s *story) detachStory(when string) string {
	t := s.t
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.engines(ctx)
	}()
	sc := &scene{t: t, memory: s.memory, clusters: s.clusters, engine: s.user}
	sc.create("a", "web@c1 p=1; web@c2 p=1 q=1; db<web@c2 d=1")
	sc.create("b", "web@c2 q=2")
	sc.done(s.user.Instantiate(ctx, "b"))
	event := s.user.Instantiate
	if when == "terminate" {
		sc.done(s.user.Instantiate(ctx, "a"))
		event = s.user.Terminate
	}
	sc.mode("c2", fake.ModeUnreachable)
	ref := sc.ref(event(ctx, "a"))
	time.Sleep(time.Minute)
	sc.detach("a", "c2")
	if when == "returns" {
		sc.mode("c2", fake.ModeWorks)
	}
	sc.done(ref, nil)
	if when != "terminate" {
		sc.done(s.user.Terminate(ctx, "a"))
	}
	time.Sleep(time.Minute) // until the active record is deleted
	if err := s.user.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	sc.mode("c2", fake.ModeWorks)
	time.Sleep(cleanupProbeTime)
	sc.pending("")
	sc.shows("c1", "")
	sc.shows("c2", "q=2")
	cancel()
	<-ended
	return s.transitionsOf("b")
}

// TestCrashAtEveryWriteOfDetach crashes an engine before and after each write of a story. It also
// crashes the next engine at each of its first writes. In the stories a cluster is detached during
// an event, and recovers.
func TestCrashAtEveryWriteOfDetach(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"instantiate", "terminate", "returns"} {
		var want string
		writes := 0
		play := func(plans ...func(int, []store.Op) storetest.Verdict) (got string) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, plans...)
				got = s.detachStory(when)
				writes = max(writes, s.writes)
			})
			return got
		}
		want = play()
		if writes < 10 {
			t.Fatalf("the story has only %d writes", writes)
		}
		at := func(n int, v storetest.Verdict) func(int, []store.Op) storetest.Verdict {
			return func(i int, _ []store.Op) storetest.Verdict {
				if i == n {
					return v
				}
				return storetest.VerdictPass
			}
		}
		for n, last := 1, writes; n <= last && !t.Failed(); n++ {
			for _, v := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
				storetest.VerdictFailBefore, storetest.VerdictFailAfter} {
				for second := 1; second <= 4; second++ {
					if got := play(at(n, v), at(second, storetest.VerdictCrashAfter),
						at(second, storetest.VerdictCrashBefore)); got != want {
						t.Errorf("%s: verdict %d at write %d, then %d: got %s, want %s", when, v, n, second, got, want)
					}
				}
			}
		}
	}
}

// TestCrashInDetach: a Detach of a context that is too large for one transaction crashes at each of
// its writes, and is repeated.
func TestCrashInDetach(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range 150 {
		text += fmt.Sprintf("app%d@c1 x%d=1;", i, i)
	}
	for n, writes := 1, 2; n <= writes; n++ {
		for _, v := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
			storetest.VerdictFailAfter} {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("a", text)
				s.done(s.engine.Instantiate(t.Context(), "a"))
				s.mode("c1", fake.ModeUnreachable)
				faults := storetest.NewFaults(s.memory, func(i int, _ []store.Op) storetest.Verdict {
					return map[int]storetest.Verdict{n: v}[i]
				})
				detacher, err := rsync.New(faults, s.clusters, rsync.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := detacher.Detach(t.Context(), "a", onEdge("c1")); err == nil && v == storetest.VerdictCrashBefore {
					t.Errorf("no error at write %d", n)
				}
				s.detach("a", "c1")
				whole := storetest.NewFaults(memstore.New(memstore.Options{}), nil)
				writes = max(writes, detachWrites(t, whole, text))
				_, stop := startEngine(t, s.memory, s.clusters, rsync.Options{})
				s.done(s.engine.Terminate(t.Context(), "a"))
				if err := s.engine.Delete(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Hour)
				s.mode("c1", fake.ModeWorks)
				time.Sleep(cleanupProbeTime)
				s.shows("c1", "")
				stop()
				if left := s.memory.Len(); left != 1 { // the key of the other engine
					t.Errorf("verdict %d at write %d: %d keys are left", v, n, left)
				}
			})
		}
	}
}

// detachWrites returns the number of writes of a Detach.
func detachWrites(t *testing.T, s *storetest.Faults, text string) int {
	engine, stop := startEngine(t, s, fake.New(), rsync.Options{})
	if err := engine.Create(t.Context(), parse(t, "a", text)); err != nil {
		t.Fatal(err)
	}
	ref, err := engine.Instantiate(t.Context(), "a")
	if err == nil {
		_, err = engine.Wait(t.Context(), ref)
	}
	stop()
	before := s.Writes()
	if err := errors.Join(err, engine.Detach(t.Context(), "a", onEdge("c1"))); err != nil {
		t.Fatal(err)
	}
	return s.Writes() - before
}
