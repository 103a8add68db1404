// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// TestRolloutEndsWithTerminate: a Terminate or a Stop ends a rollout that waits.
func TestRolloutEndsWithTerminate(t *testing.T) {
	gated := rsync.WithRollout(rsync.Rollout{Groups: []rsync.RolloutGroup{{Name: "a", Clusters: edge("c1"), ApproveAfter: true}}, RollbackOnFailure: true})
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
	t.Run("not of an instantiate of what was there", func(t *testing.T) {
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
	t.Run("not to what has failed itself", func(t *testing.T) {
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
