// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// rolloutBetween returns a scene and a function that starts an engine with a plan for its writes.
// s.engine is not started: it queues and waits.
func rolloutBetween(t *testing.T, plan func(s *scene, ops []store.Op) storetest.Verdict) (s *scene, start func()) {
	t.Helper()
	s = &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}
	var err error
	s.engine, err = rsync.New(s.memory, s.clusters, rsync.Options{Name: "user"})
	s.must(err)
	faults := storetest.NewFaults(s.memory, func(_ int, ops []store.Op) storetest.Verdict { return plan(s, ops) })
	return s, func() {
		_, s.stop = startEngine(t, faults, s.clusters, rsync.Options{})
		t.Cleanup(s.stop)
	}
}

// TestRolloutBeginOfSeveralTransactions: a begin has more apps than fit in one transaction. Between
// two of its transactions an engine crashes, the store fails, or a gate is approved. The remaining
// apps begin too, after their begin is stored.
func TestRolloutBeginOfSeveralTransactions(t *testing.T) {
	const apps, n = 7, 10
	clusters := edgeRange(n)
	ref := rsync.EventRef{AppContextID: "v1", Seq: 1}
	gate := rsync.Approval{Group: "all", Gate: rsync.GateAfterGroup}
	for name, between := range map[string]func(*scene) storetest.Verdict{
		"crash":   func(*scene) storetest.Verdict { return storetest.VerdictCrashBefore },
		"failure": func(*scene) storetest.Verdict { return storetest.VerdictFailBefore },
		"approval": func(s *scene) storetest.Verdict {
			s.must(s.engine.Approve(context.Background(), ref, gate))
			return storetest.VerdictPass
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := 0
				s, start := rolloutBetween(t, func(s *scene, ops []store.Op) storetest.Verdict {
					if begins(ops) {
						if seen++; seen == 2 {
							return between(s)
						}
					}
					return storetest.VerdictPass
				})
				s.create("v1", fleetOf(apps, n, "1"))
				for _, c := range clusters {
					s.clusters.Cluster(c.Provider, c.Name).Intercept(func(v fake.Verb, batch connector.Batch) error {
						status, err := s.engine.Status(context.Background(), "v1")
						if err != nil || v == fake.VerbApply && status.Cluster(batch.App, c).Begun.IsZero() {
							t.Errorf("%s on %s is touched before it is stored that it began: %v", batch.App, c, err)
						}
						return nil
					})
				}
				s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{
					Groups: []rsync.RolloutGroup{{Name: "all", Clusters: clusters, ApproveAfter: true}}, ProgressDeadline: time.Hour,
				})))
				start()
				time.Sleep(time.Minute)
				if name == "crash" {
					s.stop()
					_, s.stop = startEngine(t, s.memory, s.clusters, rsync.Options{})
					t.Cleanup(s.stop)
				}
				if name != "approval" {
					s.must(s.engine.Approve(t.Context(), ref, gate))
				}
				s.done(ref, nil)
				for _, c := range clusters {
					if got := len(s.clusters.Cluster(c.Provider, c.Name).Objects()); got != apps {
						t.Errorf("%s has %d objects, want %d", c, got, apps)
					}
				}
			})
		})
	}
}

// TestPauseActsAtOnce: no cluster begins after Pause or Abort has returned, even if the engine had
// decided to begin the cluster just before.
func TestPauseActsAtOnce(t *testing.T) {
	for name, act := range map[string]func(*rsync.Engine, context.Context,
		rsync.EventRef) error{"pause": (*rsync.Engine).Pause, "abort": (*rsync.Engine).Abort} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, clusters := memstore.New(memstore.Options{}), fake.New()
				s := &scene{t: t, memory: memory, clusters: clusters}
				var err error
				if s.engine, err = rsync.New(memory, clusters, rsync.Options{Name: "user"}); err != nil {
					t.Fatal(err)
				}
				s.create("v1", fleet(2, "1"))
				ref := s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})))
				once := false
				faults := storetest.NewFaults(memory, func(_ int, ops []store.Op) storetest.Verdict {
					for _, op := range ops {
						if strings.Contains(op.Key, "/status/") && strings.Contains(op.Key, "c2") && !once {
							once = true
							s.must(act(s.engine, t.Context(), ref))
						}
					}
					return storetest.VerdictPass
				})
				_, stop := startEngine(t, faults, clusters, rsync.Options{})
				t.Cleanup(stop)
				time.Sleep(time.Minute)
				if s.expect(2, "1,"); !once {
					t.Error("the second cluster never came")
				}
				if name == "pause" {
					s.must(s.engine.Resume(t.Context(), ref))
					s.done(ref, nil)
				}
			})
		})
	}
}

// TestAbortBeforeEnd: an Abort is accepted just before the end of the event is stored. The event
// ends as Aborted, and an Update deletes nothing.
func TestAbortBeforeEnd(t *testing.T) {
	for _, event := range []rsync.EventType{rsync.Instantiate, rsync.Update} {
		t.Run(string(event), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ref rsync.EventRef
				aborted := false
				s, start := rolloutBetween(t, func(s *scene, ops []store.Op) storetest.Verdict {
					if !aborted && ref.Seq != 0 && ends(ops) {
						aborted = true
						s.must(s.engine.Abort(context.Background(), ref))
					}
					return storetest.VerdictPass
				})
				s.create("v1", "web@c1 x=1 old=1; web@c2 x=1 old=1")
				s.create("v2", "web@c1 x=2; web@c2 x=2")
				rollout := rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})
				if event == rsync.Instantiate {
					ref = s.ref(s.engine.Instantiate(t.Context(), "v1", rollout))
					start()
				} else {
					start()
					s.done(s.engine.Instantiate(t.Context(), "v1"))
					s.stop()
					ref = s.ref(s.engine.Update(t.Context(), "v1", "v2", rollout))
					start()
				}
				s.fails(rsync.ReasonAborted, ref, nil)
				s.state(ref.AppContextID, rsync.InstantiateFailed)
				if event == rsync.Update {
					s.shows("c1", "old=1 x=2")
				}
			})
		})
	}
}

// TestNoRollbackAfterTerminate: a rollout fails while a Terminate of the context in use is queued
// and has not begun. No rollback undoes the Terminate.
func TestNoRollbackAfterTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queued, released atomic.Bool
		s, start := rolloutBetween(t, func(s *scene, ops []store.Op) storetest.Verdict {
			for _, o := range ops {
				value := string(o.Value)
				switch {
				case strings.HasPrefix(o.Key, "/context/v2/status/") && strings.Contains(value, `"Failed"`) && !queued.Swap(true):
					s.ref(s.engine.Terminate(context.Background(), "v1"))
				case strings.HasPrefix(o.Key, "/context/v1/queue/0") && strings.Contains(value, `"Terminate"`) && !released.Load():
					return storetest.VerdictFailBefore
				}
			}
			return storetest.VerdictPass
		})
		start()
		s.create("v1", fleet(2, "1"))
		s.create("v2", fleet(2, "2"))
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		failing(s.clusters.Cluster("edge", "c1"), fake.VerbApply)
		ref := s.ref(s.engine.Update(t.Context(), "v1", "v2",
			rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1", RollbackOnFailure: true})))
		s.fails(rsync.ReasonRefused, ref, nil)
		released.Store(true)
		time.Sleep(10 * time.Minute)
		s.state("v1", rsync.Terminated)
		if back := s.rollback(ref); back != nil {
			t.Errorf("the rollout queued %+v", back)
		}
	})
}
