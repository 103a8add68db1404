// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync"
)

// TestRolloutDeadlineOfSlowRequests: a cluster fails at the deadline even if its requests still
// make progress.
func TestRolloutDeadlineOfSlowRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		var objects []string
		for i := range 400 {
			objects = append(objects, fmt.Sprintf("o%d=1", i))
		}
		s.create("v1", "web@c1 "+strings.Join(objects, " ")+"; web@c2 x=1")
		s.clusters.Cluster("edge", "c1").SetLatency(500 * time.Millisecond)
		failure := s.failure(rsync.ReasonDeadline,
			s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{
				MaxConcurrency: "1", ProgressDeadline: time.Minute,
			}))), nil)
		if want := "web on edge+c1: DeadlineExceeded: it took longer than 1m0s"; !strings.Contains(failure.Message, want) {
			t.Errorf("the message is %q, want %q", failure.Message, want)
		}
		s.shows("c2", "")
	})
}

// TestRolloutDeadlineWithoutEngine: a deadline that ends while no engine runs is exceeded for the
// next engine.
func TestRolloutDeadlineWithoutEngine(t *testing.T) {
	rolloutTest(t, 2, func(s *scene) {
		s.unready("c1")
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", rsync.WithRollout(rsync.Rollout{
			MaxConcurrency: "1", ProgressDeadline: time.Minute,
		})))
		time.Sleep(10 * time.Second)
		s.stop()
		s.becomes(true, "c1")
		time.Sleep(time.Hour)
		s.engine, s.stop = startEngine(s.t, s.memory, s.clusters, rsync.Options{})
		s.fails(rsync.ReasonDeadline, ref, nil)
		s.expect(2, "1,")
	})
}

// setClock is a clock with an adjustable offset.
type setClock struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *setClock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func (c *setClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestRolloutDeadlineAfterClockWasSetBack: a cluster that begins after the clock was set back has
// its own deadline.
func TestRolloutDeadlineAfterClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &setClock{}
		s := newScene(t, nil, rsync.Options{Clock: host})
		s.create("v1", fleet(3, "1"))
		s.unready("c1", "c2", "c3")
		ref := s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{
			MaxConcurrency: "2", MaxFailures: "3", ProgressDeadline: 10 * time.Minute,
		})))
		time.Sleep(time.Minute)
		host.offset.Store(-int64(24 * time.Hour))
		s.becomes(true, "c2") // c3 begins
		time.Sleep(11 * time.Minute)
		status, err := s.engine.Status(t.Context(), "v1")
		s.must(err)
		if c3 := status.Cluster("web", edge("c3")[0]); c3.Reason != rsync.ReasonDeadline {
			t.Errorf("11 minutes after it began c3 is %s %s", c3.Phase, c3.Reason)
		}
		s.must(s.engine.Abort(t.Context(), ref))
	})
}
