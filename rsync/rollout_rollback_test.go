// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"testing"
	"time"

	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// TestRolloutEndsWithTerminate: a Terminate or a Stop ends a rollout that waits.
func TestRolloutEndsWithTerminate(t *testing.T) {
	gated := rsync.WithRollout(
		rsync.Rollout{Groups: []rsync.RolloutGroup{{Name: "a", Clusters: edge("c1"), ApproveAfter: true}},
			RollbackOnFailure: true})
	rolloutTest(t, 2, func(s *scene) {
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", gated))
		s.expect(2, "1,")
		s.done(s.engine.Terminate(s.t.Context(), "v1"))
		s.fails(rsync.ReasonPreempted, ref, nil)
		s.expect(2, ",")
		s.notRolledBack(ref)
	})
	rolloutTest(t, 2, func(s *scene) {
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", gated))
		s.expect(2, "1,")
		s.must(s.engine.Stop(s.t.Context(), "v1"))
		s.fails(rsync.ReasonStopped, ref, nil)
		s.notRolledBack(ref)
		s.expect(2, "1,")
	})
	rolloutTest(t, 1, func(s *scene) { // only the last approval is missing
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", gated))
		s.expect(1, "1")
		s.must(s.engine.Stop(s.t.Context(), "v1"))
		s.fails(rsync.ReasonStopped, ref, nil)
		s.notRolledBack(ref)
		s.state("v1", rsync.InstantiateFailed)
	})
}

func (s *scene) notRolledBack(ref rsync.EventRef) {
	s.t.Helper()
	if r := s.rollback(ref); r != nil {
		s.t.Errorf("it was rolled back by %+v", r)
	}
}

// rollback returns the event that a failed rollout has queued to roll itself back, or nil.
func (s *scene) rollback(ref rsync.EventRef) *rsync.EventRef {
	status, err := s.engine.Status(s.t.Context(), ref.AppContextID)
	s.must(err)
	return status.Element(ref.Seq).Rollback
}

// TestRollbackOnFailure: a failed rollout with RollbackOnFailure is rolled back, if a rollback is
// possible.
func TestRollbackOnFailure(t *testing.T) {
	back := rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1", RollbackOnFailure: true, ProgressDeadline: time.Minute})
	t.Run("of an update", func(t *testing.T) {
		rolloutTest(t, 3, func(s *scene) {
			s.done(s.engine.Instantiate(t.Context(), "v1"))
			s.clusters.Cluster("edge", "c2").Intercept(func(v fake.Verb, batch connector.Batch) error {
				if v == fake.VerbApply && batch.AppContextID == "v2" {
					return &connector.Error{Class: connector.ErrTerminal, Err: errors.New("denied")}
				}
				return nil
			})
			ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", back))
			s.fails(rsync.ReasonRefused, ref, nil)
			s.done(*s.rollback(ref), nil)
			s.expect(3, "1,1,1")
			s.state("v1", rsync.Instantiated)
			s.state("v2", rsync.Updated)
		})
	})
	t.Run("of a first instantiate", func(t *testing.T) {
		rolloutTest(t, 3, func(s *scene) {
			s.unready("c2")
			ref := s.ref(s.engine.Instantiate(t.Context(), "v1", back))
			s.fails(rsync.ReasonDeadline, ref, nil)
			s.done(*s.rollback(ref), nil)
			s.expect(3, ",,")
			s.state("v1", rsync.Terminated)
		})
	})
	t.Run("no rollback of an instantiate over existing objects", func(t *testing.T) {
		rolloutTest(t, 3, func(s *scene) {
			s.done(s.engine.Instantiate(t.Context(), "v1"))
			s.clusters.Cluster("edge", "c2").SetMode(fake.ModeRefusing)
			ref := s.ref(s.engine.Instantiate(t.Context(), "v1", back))
			s.fails(rsync.ReasonRefused, ref, nil)
			if r := s.rollback(ref); r != nil {
				t.Errorf("it was rolled back by %+v", r)
			}
			s.expect(3, "1,1,1")
		})
	})
	t.Run("no rollback to a failed context", func(t *testing.T) {
		rolloutTest(t, 3, func(s *scene) {
			s.clusters.Cluster("edge", "c2").SetMode(fake.ModeRefusing)
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Instantiate(t.Context(), "v1")), nil)
			ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", back))
			s.fails(rsync.ReasonRefused, ref, nil)
			if r := s.rollback(ref); r != nil {
				t.Errorf("it was rolled back by %+v", r)
			}
		})
	})
}

// canaryFirst returns a rollout that begins with the clusters c1 and c2, and waits for an approval
// after c3.
func canaryFirst() rsync.CallOption {
	return rsync.WithRollout(rsync.Rollout{Groups: []rsync.RolloutGroup{
		{Name: "canary", Clusters: edge("c1", "c2")}, {Name: "early", Clusters: edge("c3"), ApproveAfter: true},
	}})
}

func canaryBack() rsync.CallOption {
	return rsync.WithRollout(rsync.Rollout{Groups: []rsync.RolloutGroup{{Name: "canary", Clusters: edge("c1", "c2"),
		ApproveAfter: true}}})
}

// mixed returns the text of a context with the objects x and own-N on clusters c1 to c4.
func mixed(value string) string {
	var out []string
	for i := range 4 {
		out = append(out, fmt.Sprintf("web@c%d x=%s own%s=1", i+1, value, value))
	}
	return strings.Join(out, "; ")
}

func (s *scene) fleetShows(want ...string) {
	s.t.Helper()
	for i, w := range want {
		s.shows(fmt.Sprint("c", i+1), w)
	}
}

// TestRollbackOfGroup: after a failed or aborted rollout, a rollback with a gate after its first
// group rolls back only this group. Each next event is then possible, and leaves no other objects.
func TestRollbackOfGroup(t *testing.T) {
	const old, update, both, third = "own1=1 x=1", "own2=1 x=2", "own1=1 own2=1 x=2", "own3=1 x=3"
	causes := map[string]struct {
		fail  func(s *scene, ref rsync.EventRef)
		after []string // the objects on the clusters then
	}{
		"aborted": {func(s *scene, ref rsync.EventRef) {
			s.waits(ref, `approval after group "early"`)
			s.must(s.engine.Pause(s.t.Context(), ref))
			s.must(s.engine.Abort(s.t.Context(), ref))
			s.fails(rsync.ReasonAborted, ref, nil)
		}, []string{both, both, both, old}},
		"failed": {func(s *scene, ref rsync.EventRef) {
			s.fails(rsync.ReasonRefused, ref, nil)
			s.clusters.Cluster("edge", "c2").Intercept(nil)
		}, []string{both, old, old, old}},
	}
	ways := map[string]struct {
		act  func(s *scene, back rsync.EventRef)
		last string
	}{
		"rest too": {func(s *scene, back rsync.EventRef) {
			s.must(s.engine.Approve(s.t.Context(), back, rsync.Approval{Group: "canary", Gate: rsync.GateAfterGroup}))
			s.done(back, nil)
		}, old},
		"again":    {ended(func(s *scene) { s.done(s.engine.Update(s.t.Context(), "v1", "v2")) }), update},
		"forward":  {ended(func(s *scene) { s.done(s.engine.Update(s.t.Context(), "v2", "v3")) }), third},
		"rollback": {ended(func(s *scene) { s.done(s.engine.Rollback(s.t.Context(), "v2", "v1")) }), old},
		"terminate": {ended(func(s *scene) {
			s.done(s.engine.Terminate(s.t.Context(), "v2"))
			s.done(s.engine.Terminate(s.t.Context(), "v1"))
		}), ""},
	}
	for cause, c := range causes {
		for way, w := range ways {
			t.Run(cause+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil, rsync.Options{})
					for _, n := range []string{"1", "2", "3"} {
						s.create("v"+n, mixed(n))
					}
					s.done(s.engine.Instantiate(t.Context(), "v1"))
					if cause == "failed" {
						failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
					}
					ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", canaryFirst()))
					synctest.Wait()
					c.fail(s, ref)
					s.fleetShows(c.after...)
					back := s.ref(s.engine.Rollback(t.Context(), "v2", "v1", canaryBack()))
					synctest.Wait()
					s.waits(back, `approval after group "canary"`)
					group := strings.ReplaceAll(c.after[0], "x=2", "x=1")
					s.fleetShows(append([]string{group, strings.ReplaceAll(c.after[1], "x=2", "x=1")},
						c.after[2:]...)...)
					w.act(s, back)
					s.fleetShows(w.last, w.last, w.last, w.last)
				})
			})
		}
	}
}

// ended returns a function that aborts the rollback of the group before it calls act.
func ended(act func(s *scene)) func(*scene, rsync.EventRef) {
	return func(s *scene, back rsync.EventRef) {
		s.must(s.engine.Abort(s.t.Context(), back))
		s.fails(rsync.ReasonAborted, back, nil)
		act(s)
	}
}

// TestRollbackOfGroupCrashes: engines crash at each write of an aborted rollout, the rollback of a
// group and the second attempt. The clusters outside the group receive no calls while the group is
// rolled back.
func TestRollbackOfGroupCrashes(t *testing.T) {
	t.Parallel()
	writes := 0
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		s.groupBack()
		writes = s.writes
	})
	if writes < 20 {
		t.Fatalf("the story has only %d writes", writes)
	}
	for n := 1; n <= writes && !t.Failed(); n++ {
		for _, v := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
			storetest.VerdictFailAfter} {
			t.Run(fmt.Sprint(n, v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					newStory(t, func(i int, _ []store.Op) storetest.Verdict {
						if i == n {
							return v
						}
						return storetest.VerdictPass
					}).groupBack()
				})
			})
		}
	}
}

// groupBack plays the story of TestRollbackOfGroupCrashes.
func (s *story) groupBack() {
	t := s.t
	for _, n := range []string{"1", "2"} {
		if err := s.user.Create(t.Context(), parse(t, "v"+n, mixed(n))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.engines(ctx)
	}()
	ref := func(ref rsync.EventRef, err error) rsync.EventRef {
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	finishes := func(r rsync.EventRef, want error) {
		t.Helper()
		limited, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		if _, err := s.user.Wait(limited, r); !errors.Is(err, want) {
			t.Fatalf("event %+v ended with %v, want %v", r, err, want)
		}
	}
	atGate := func(r rsync.EventRef) {
		t.Helper()
		time.Sleep(10 * time.Minute) // recovery from a crash takes seconds
		if status, err := s.user.RolloutStatus(ctx, r); err != nil ||
			!strings.Contains(status.Waiting, "approval after group") {
			t.Fatalf("the rollout is %+v, %v", status, err)
		}
	}
	rest := func() int {
		return s.clusters.Cluster("edge", "c3").Count(fake.VerbApply) +
			s.clusters.Cluster("edge", "c4").Count(fake.VerbApply) +
			s.clusters.Cluster("edge", "c3").Count(fake.VerbDelete) + s.clusters.Cluster("edge", "c4").Count(fake.VerbDelete)
	}
	finishes(ref(s.user.Instantiate(ctx, "v1")), nil)
	update := ref(s.user.Update(ctx, "v1", "v2", canaryFirst()))
	atGate(update)
	abort := func(r rsync.EventRef) {
		if err := s.user.Abort(ctx, r); err != nil {
			t.Fatal(err)
		}
		finishes(r, rsync.ErrAborted)
	}
	abort(update)
	before := rest()
	back := ref(s.user.Rollback(ctx, "v2", "v1", canaryBack()))
	atGate(back)
	if calls := rest() - before; calls > 0 {
		t.Errorf("clusters outside the group got %d calls", calls)
	}
	for c, want := range map[string]string{"c1": "own1=1 own2=1 x=1", "c2": "own1=1 own2=1 x=1", "c3": "own1=1 own2=1 x=2",
		"c4": "own1=1 x=1"} {
		if got := objectsOn(s.clusters, c); got != want {
			t.Errorf("%s has %s, want %s", c, got, want)
		}
	}
	abort(back)
	finishes(ref(s.user.Update(ctx, "v1", "v2")), nil)
	for _, c := range []string{"c1", "c2", "c3", "c4"} {
		if got := objectsOn(s.clusters, c); got != "own2=1 x=2" {
			t.Errorf("%s has %s after the update", c, got)
		}
	}
	cancel()
	<-ended
}

// TestRollbackOfGroupModel: after a random rollout that failed, a random group is rolled back. The
// gate holds all other clusters, and each next event converges.
func TestRollbackOfGroupModel(t *testing.T) {
	t.Parallel()
	checked, led := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "clusters")
		spec := drawRollout(rt, n)
		spec.RollbackOnFailure = false
		seed := rapid.Uint64().Draw(rt, "seed")
		group := rapid.Permutation(edgeRange(n)).Draw(rt, "order")[:rapid.IntRange(1, n).Draw(rt, "size")]
		way := rapid.IntRange(0, 3).Draw(rt, "way")
		synctest.Test(t, func(t *testing.T) {
			checked++
			if newRolloutWorld(t, 1, n, spec, seed).groupBack(group, way) {
				led++
			}
			if t.Failed() {
				t.Logf("%d clusters, seed %d, group %v, way %d: %+v", n, seed, group, way, spec)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
	if checked >= 50 && led < checked/5 {
		t.Errorf("a group was led back in %d of %d cases", led, checked)
	}
}

// groupBack reports whether the rollout failed and the group was rolled back.
func (w *rolloutWorld) groupBack(group []appcontext.ClusterID, way int) bool {
	ctx := w.t.Context()
	stop := w.start(0)
	w.done(w.engine.Instantiate(ctx, "v1"))
	stop()
	w.trouble("v2")
	w.people = true
	w.ref = w.scene.ref(w.engine.Update(ctx, "v1", "v2", rsync.WithRollout(w.spec)))
	followed := w.watch.follow(ctx, w.engine, w.ref)
	w.start(w.rand.IntN(12))
	w.interfere(ctx)
	followed()
	w.heal()
	if _, err := w.wait(w.ref, nil); err == nil {
		w.expect(w.n, strings.TrimSuffix(strings.Repeat("2,", w.n), ","))
		return false
	}
	want := strings.Split(w.at(w.n), ",")
	for i, c := range w.watch.clusters {
		if slices.Contains(group, c) {
			want[i] = "1"
		}
	}
	back := w.scene.ref(w.engine.Rollback(ctx, "v2", "v1", rsync.WithRollout(rsync.Rollout{
		Groups:         []rsync.RolloutGroup{{Name: "back", Clusters: group, ApproveAfter: true}},
		MaxConcurrency: w.spec.MaxConcurrency,
	})))
	time.Sleep(time.Hour)
	w.waits(back, `approval after group "back"`)
	w.expect(w.n, strings.Join(want, ","))
	last := "1"
	if way == 0 {
		w.must(w.engine.Approve(ctx, back, rsync.Approval{Group: "back", Gate: rsync.GateAfterGroup}))
		w.done(back, nil)
	} else {
		w.must(w.engine.Abort(ctx, back))
		w.fails(rsync.ReasonAborted, back, nil)
	}
	switch way {
	case 1:
		w.done(w.engine.Update(ctx, "v1", "v2"))
		last = "2"
	case 2:
		w.done(w.engine.Rollback(ctx, "v2", "v1"))
	case 3:
		w.done(w.engine.Terminate(ctx, "v2"))
		w.done(w.engine.Terminate(ctx, "v1"))
		last = ""
	}
	w.expect(w.n, strings.TrimSuffix(strings.Repeat(last+",", w.n), ","))
	return true
}
