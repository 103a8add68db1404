// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// absentTest runs f with the contexts v1 and v2 on clusters c1 and c2, and with a foreign object y
// on c2. If fails is set, c1 refuses all objects of both contexts except hooks.
func absentTest(t *testing.T, fails bool, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveHeal})
		s.create("v1", "web@c1 x=1 pre-delete!bye=1; web@c2 x=1 pre-delete!bye=1")
		s.create("v2", "web@c1 x=2 y=2; web@c2 x=2 y=2")
		c2 := s.clusters.Cluster("edge", "c2")
		c2.SetObject(object("ConfigMap", "y"), manifest("ConfigMap", "y", "foreign"))
		if fails {
			s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, b connector.Batch) error {
				if v == fake.VerbApply && len(b.Resources) > 0 && b.Resources[0].Hook == "" && b.AppContextID != "other" {
					return &connector.Error{Class: connector.ErrTerminal}
				}
				return nil
			})
		}
		f(s)
	})
}

func canary() rsync.CallOption {
	return rsync.WithRollout(rsync.Rollout{
		Groups: []rsync.RolloutGroup{{Name: "canary", Clusters: edge("c1"), ApproveAfter: true}}, RollbackOnFailure: true,
	})
}

// TestRollbackSkipsClustersThatDidNotBegin: a Terminate, or the second phase of a rollback, leaves
// out the clusters that the failed rollout did not begin. It deletes no object there and runs no
// hook, also after other events.
func TestRollbackSkipsClustersThatDidNotBegin(t *testing.T) {
	for name, between := range map[string]func(*scene){
		"at once": func(*scene) {},
		"after a read and a second attempt": func(s *scene) {
			s.done(s.engine.Read(s.t.Context(), "v1"))
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Instantiate(s.t.Context(), "v1", canary())), nil)
			s.stop()
			s.engine, s.stop = startEngine(s.t, s.memory, s.clusters, rsync.Options{})
		},
	} {
		t.Run("instantiate, "+name, func(t *testing.T) {
			absentTest(t, true, func(s *scene) {
				c2 := s.clusters.Cluster("edge", "c2")
				c2.SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "foreign"))
				ref := s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})))
				s.fails(rsync.ReasonRefused, ref, nil)
				between(s)
				s.done(s.engine.Terminate(t.Context(), "v1"))
				if got := s.verbs("c2"); got != "" {
					t.Errorf("c2 did %s", got)
				}
				s.shows("c2", "x=foreign y=foreign")
				s.clusters.Cluster("edge", "c1").Intercept(nil)
				s.done(s.engine.Instantiate(t.Context(), "v1")) // again, on all clusters
				s.done(s.engine.Terminate(t.Context(), "v1"))
				s.shows("c2", "y=foreign")
			})
		})
	}
	t.Run("update", func(t *testing.T) {
		absentTest(t, false, func(s *scene) {
			s.done(s.engine.Instantiate(t.Context(), "v1"))
			s.clusters.Cluster("edge", "c1").Intercept(func(v fake.Verb, b connector.Batch) error {
				if v == fake.VerbApply && b.AppContextID == "v2" {
					return &connector.Error{Class: connector.ErrTerminal}
				}
				return nil
			})
			ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", canary()))
			s.fails(rsync.ReasonRefused, ref, nil)
			s.done(*s.rollback(ref), nil)
			s.state("v1", rsync.Instantiated)
			s.state("v2", rsync.Updated)
			s.shows("c2", "x=1 y=foreign")
		})
	})
}

// TestDetachOfClusterThatDidNotBegin: Detach cleans up nothing on a cluster that the rollout has
// not begun.
func TestDetachOfClusterThatDidNotBegin(t *testing.T) {
	absentTest(t, false, func(s *scene) {
		ref := s.ref(s.engine.Instantiate(t.Context(), "v2", canary()))
		synctest.Wait()
		s.must(s.engine.Detach(t.Context(), "v2", edge("c2")[0]))
		time.Sleep(time.Hour)
		s.shows("c2", "y=foreign")
		s.must(s.engine.Approve(t.Context(), ref, rsync.Approval{Group: "canary", Gate: rsync.GateAfterGroup}))
		s.done(ref, nil)
		s.must(s.engine.Attach(t.Context(), "v2", edge("c2")[0]))
		s.done(s.engine.Terminate(t.Context(), "v2"))
		s.shows("c1", "")
	})
}

// TestNoHoldWhereRolloutDidNotBegin: a context holds its objects on a cluster after the
// rollout has begun there. Until then, the manifests of other contexts apply.
func TestNoHoldWhereRolloutDidNotBegin(t *testing.T) {
	absentTest(t, false, func(s *scene) {
		s.create("other", "base@c1 x=3; base@c2 x=3 z=3")
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		s.done(s.engine.Instantiate(t.Context(), "other"))
		ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", canary()))
		synctest.Wait()
		held, err := s.engine.Inventory(t.Context(), edge("c2")[0])
		s.must(err)
		for _, h := range held {
			if h.AppContextID == "v2" {
				t.Errorf("v2 holds %s on c2 before it has begun there", h.Object)
			}
		}
		s.done(s.engine.Terminate(t.Context(), "other"))
		s.shows("c1", "x=2 y=2")
		s.shows("c2", "x=1 y=foreign")
		s.must(s.engine.Approve(t.Context(), ref, rsync.Approval{Group: "canary", Gate: rsync.GateAfterGroup}))
		s.done(ref, nil)
		s.shows("c2", "x=2 y=2")
		s.done(s.engine.Terminate(t.Context(), "v2"))
		s.shows("c2", "")
	})
}

// TestDriftWhereRolloutDidNotBegin: on clusters that the rollout of another context did not begin,
// drift is healed for the context in use. This also applies after the rollout was aborted.
func TestDriftWhereRolloutDidNotBegin(t *testing.T) {
	for name, abort := range map[string]bool{"at a gate": false, "aborted": true} {
		t.Run(name, func(t *testing.T) {
			absentTest(t, false, func(s *scene) {
				s.done(s.engine.Instantiate(t.Context(), "v1"))
				ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", rsync.WithRollout(rsync.Rollout{
					Groups: []rsync.RolloutGroup{{Name: "canary", Clusters: edge("c1"), ApproveAfter: true}},
				})))
				synctest.Wait()
				if abort {
					s.must(s.engine.Abort(t.Context(), ref))
					s.fails(rsync.ReasonAborted, ref, nil)
				}
				s.clusters.Cluster("edge", "c2").SetObject(object("ConfigMap", "x"), manifest("ConfigMap", "x", "drift"))
				time.Sleep(time.Hour)
				s.shows("c1", "x=2 y=2")
				s.shows("c2", "x=1 y=foreign")
			})
		})
	}
}
