// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// edge returns the IDs of clusters of the provider edge.
func edge(names ...string) (out []appcontext.ClusterID) {
	for _, name := range names {
		out = append(out, appcontext.ClusterID{Provider: "edge", Name: name})
	}
	return out
}

// fleet returns the text of a context with one app on clusters c1 to cN.
func fleet(n int, value string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("web@c%d x=%s", i+1, value))
	}
	return strings.Join(out, "; ")
}

// at returns the values of x on clusters c1 to cN, separated by commas. A value is empty if the
// cluster has no x.
func (s *scene) at(n int) string {
	var out []string
	for i := range n {
		out = append(out, strings.TrimPrefix(s.objects(fmt.Sprint("c", i+1)), "x="))
	}
	return strings.Join(out, ",")
}

func (s *scene) expect(n int, want string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.at(n); got != want {
		s.t.Errorf("the clusters have %s, want %s", got, want)
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// waits checks the reason why a rollout waits. If want is empty, the rollout must not wait.
func (s *scene) waits(ref rsync.EventRef, want string) *rsync.RolloutStatus {
	s.t.Helper()
	status, err := s.engine.RolloutStatus(s.t.Context(), ref)
	s.must(err)
	if !strings.Contains(status.Waiting, want) || want == "" && status.Waiting != "" {
		s.t.Errorf("the rollout waits because of %q, want %q", status.Waiting, want)
	}
	return status
}

// needs checks the approval that a rollout waits for, and the reason why it waits.
func (s *scene) needs(ref rsync.EventRef, want *rsync.Approval, why string) {
	s.t.Helper()
	if got := s.waits(ref, why).Needs; !reflect.DeepEqual(got, want) {
		s.t.Errorf("the rollout needs the approval %+v, want %+v", got, want)
	}
}

// waitFails checks that Wait returns the reason why the rollout waits, if ctx ends first.
func (s *scene) waitFails(ref rsync.EventRef, want string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.engine.Wait(ctx, ref); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), want) {
		s.t.Errorf("Wait returned %v, want %q", err, want)
	}
}

// unready makes the objects that are applied to clusters unready.
func (s *scene) unready(names ...string) {
	for _, name := range names {
		s.clusters.Cluster("edge", name).SetUnready(func(appcontext.Object) bool { return true })
	}
}

func (s *scene) becomes(ready bool, names ...string) {
	for _, name := range names {
		s.clusters.Cluster("edge", name).SetReady(appcontext.Object{Kind: "ConfigMap", Namespace: "default", Name: "x"},
			ready, false)
	}
	time.Sleep(10 * time.Second)
}

// rolloutTest runs a test with an engine and the contexts v1 and v2 on clusters c1 to cN.
func rolloutTest(t *testing.T, n int, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("v1", fleet(n, "1"))
		s.create("v2", fleet(n, "2"))
		f(s)
	})
}

// TestRolloutOrder: groups begin one after another, each within its concurrency. The clusters in no
// group are last. A cluster is done when its resources are ready.
func TestRolloutOrder(t *testing.T) {
	rolloutTest(t, 6, func(s *scene) {
		s.unready("c1", "c2", "c3", "c4", "c5", "c6")
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", rsync.WithRollout(rsync.Rollout{
			Groups: []rsync.RolloutGroup{{Name: "canary", Clusters: edge("c5")},
				{Name: "early", Clusters: edge("c4", "c2", "c3"), MaxConcurrency: "67%"}},
			MaxConcurrency: "1",
		})))
		s.expect(6, ",,,,1,")
		s.becomes(true, "c5")
		s.expect(6, ",1,,1,1,")
		s.becomes(true, "c2")
		s.expect(6, ",1,1,1,1,")
		got := s.waits(ref, "").Groups
		want := []rsync.RolloutGroupStatus{
			{Name: "canary", Clusters: 1, Succeeded: 1}, {Name: "early", Clusters: 3, InProgress: 2, Succeeded: 1},
			{Clusters: 2},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			s.t.Errorf("the groups are %+v, want %+v", got, want)
		}
		s.becomes(true, "c3", "c4")
		s.expect(6, "1,1,1,1,1,")
		s.becomes(true, "c1")
		s.expect(6, "1,1,1,1,1,1")
		s.becomes(true, "c6")
		s.done(ref, nil)
	})
}

// TestRolloutUntilDeployed: a rollout with Until Deployed continues as soon as resources are
// applied.
func TestRolloutUntilDeployed(t *testing.T) {
	rolloutTest(t, 3, func(s *scene) {
		s.unready("c1", "c2", "c3")
		s.done(s.engine.Instantiate(s.t.Context(), "v1",
			rsync.WithRollout(rsync.Rollout{Until: appcontext.OpStatusDeployed, MaxConcurrency: "1"})))
		s.expect(3, "1,1,1")
	})
}

// TestRolloutDeadline: a cluster that is not ready before the deadline fails. The error names the
// object that is not ready. The deadline counts from the begin of the cluster, also for engines
// that take over.
func TestRolloutDeadline(t *testing.T) {
	rolloutTest(t, 3, func(s *scene) {
		s.unready("c2")
		began := time.Now()
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1",
			rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1", ProgressDeadline: time.Minute})))
		time.Sleep(30 * time.Second)
		s.stop()
		time.Sleep(10 * time.Second)
		s.engine, s.stop = startEngine(s.t, s.memory, s.clusters, rsync.Options{})
		failure := s.failure(rsync.ReasonDeadline, ref, nil)
		if took := time.Since(began); took < time.Minute || took > 61*time.Second {
			s.t.Errorf("it failed after %s", took)
		}
		const want = "web on edge+c2: DeadlineExceeded: ConfigMap default/x is not ready yet; failed clusters: 1, and " +
			"MaxFailures is 0"
		if !errors.Is(failure, rsync.ErrDeadline) || failure.Message != want {
			s.t.Errorf("the error is %q, want %q", failure.Message, want)
		}
		s.expect(3, "1,1,")
		s.state("v1", rsync.InstantiateFailed)
	})
}

// TestRolloutDeadlineOfDeadCluster: a cluster that does not answer fails at the deadline.
func TestRolloutDeadlineOfDeadCluster(t *testing.T) {
	for _, mode := range []fake.Mode{fake.ModeUnreachable, fake.ModeBlackHole, fake.ModeFailing} {
		rolloutTest(t, 2, func(s *scene) {
			s.clusters.Cluster("edge", "c1").SetMode(mode)
			began := time.Now()
			ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", rsync.WithRollout(rsync.Rollout{
				MaxConcurrency: "1", MaxFailures: "1", ProgressDeadline: time.Minute,
			})))
			s.fails(rsync.ReasonDeadline, ref, nil)
			if took := time.Since(began); took > 75*time.Second {
				s.t.Errorf("mode %d: it failed after %s", mode, took)
			}
			s.expect(2, ",1")
			s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		})
	}
}

// TestRolloutMinSuccessTime: resources must stay ready for MinSuccessTime without interruption.
func TestRolloutMinSuccessTime(t *testing.T) {
	rolloutTest(t, 2, func(s *scene) {
		s.unready("c1")
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1",
			rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1", MinSuccessTime: time.Minute})))
		s.becomes(false, "c1") // x is applied meanwhile
		s.becomes(true, "c1")
		time.Sleep(40 * time.Second)
		s.becomes(false, "c1")
		s.becomes(true, "c1") // sleeps for 10 s
		time.Sleep(49 * time.Second)
		s.expect(2, "1,")
		time.Sleep(2 * time.Second)
		s.expect(2, "1,1")
		s.done(ref, nil)
	})
}

// TestRolloutMaxFailures: after more failures than MaxFailures, no other cluster begins. Clusters
// in progress continue.
func TestRolloutMaxFailures(t *testing.T) {
	for name, c := range map[string]struct {
		rollout rsync.Rollout
		want    string
		message string
	}{
		"none":    {rsync.Rollout{}, "1,,,,,", "failed clusters: 1, and MaxFailures is 0"},
		"one":     {rsync.Rollout{MaxFailures: "1"}, "1,,1,,,", "failed clusters: 2, and MaxFailures is 1"},
		"percent": {rsync.Rollout{MaxFailures: "34%"}, "1,,1,,1,1", ""},
		"of a group": {rsync.Rollout{MaxFailures: "5",
			Groups: []rsync.RolloutGroup{{Name: "g", Clusters: edge("c1", "c2"), MaxFailures: "0"}}}, "1,,,,,",
			"failed clusters in group \"g\": 1, and its MaxFailures is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			rolloutTest(t, 6, func(s *scene) {
				for _, failing := range edge("c2", "c4") {
					s.clusters.Cluster("edge", failing.Name).SetMode(fake.ModeRefusing)
				}
				s.clusters.Cluster("edge", "c1").SetDelay(time.Second)
				s.clusters.Cluster("edge", "c3").SetDelay(2 * time.Second)
				s.clusters.Cluster("edge", "c5").SetDelay(time.Second)
				c.rollout.MaxConcurrency = "2"
				failure := s.failure(rsync.ReasonRefused,
					s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(c.rollout))), nil)
				if !strings.HasSuffix(failure.Message, c.message) || strings.HasSuffix(failure.Message, "; ") {
					t.Errorf("the message is %q, want %q at its end", failure.Message, c.message)
				}
				s.expect(6, c.want)
			})
		})
	}
}

// TestRolloutApproval: a rollout waits at a gate until the gate is approved. Approvals are accepted
// in any order.
func TestRolloutApproval(t *testing.T) {
	rolloutTest(t, 3, func(s *scene) {
		s.done(s.engine.Instantiate(s.t.Context(), "v1"))
		ref := s.ref(s.engine.Update(s.t.Context(), "v1", "v2", rsync.WithRollout(rsync.Rollout{Groups: []rsync.RolloutGroup{
			{Name: "a", Clusters: edge("c1"), ApproveBefore: true, ApproveAfter: true},
			{Name: "b", Clusters: edge("c2"), ApproveBefore: true, Wait: time.Minute},
			{Name: "c", Clusters: edge("c3"), ApproveAfter: true},
		}})))
		approve := func(group string, gate rsync.Gate) {
			s.t.Helper()
			s.must(s.engine.Approve(s.t.Context(), ref, rsync.Approval{Group: group, Gate: gate}))
			synctest.Wait()
		}
		s.expect(3, "1,1,1")
		s.needs(ref, &rsync.Approval{Group: "a", Gate: rsync.GateBeforeGroup},
			`group "a" waits for an approval before it begins`)
		s.waitFails(ref, `group "a" waits for an approval before it begins`)
		approve("b", rsync.GateBeforeGroup)
		s.expect(3, "1,1,1")
		approve("a", rsync.GateBeforeGroup)
		s.expect(3, "2,1,1")
		s.needs(ref, &rsync.Approval{Group: "a", Gate: rsync.GateAfterGroup}, `for an approval after group "a"`)
		approve("a", rsync.GateAfterGroup)
		approve("a", rsync.GateAfterGroup) // again
		s.expect(3, "2,2,1")
		s.needs(ref, nil, `after group "b"`)
		time.Sleep(59 * time.Second)
		s.expect(3, "2,2,1")
		time.Sleep(2 * time.Second)
		s.expect(3, "2,2,2")
		s.state("v1", rsync.Instantiated) // nothing is deleted before the last approval
		s.waits(ref, `for an approval after group "c"`)
		approve("c", rsync.GateAfterGroup)
		s.done(ref, nil)
		s.state("v1", rsync.Updated)
		before, err := s.engine.Status(s.t.Context(), "v2")
		s.must(err)
		approve("a", rsync.GateBeforeGroup) // a repeated call, as after a lost answer
		s.must(s.engine.Resume(s.t.Context(), ref))
		after, err := s.engine.Status(s.t.Context(), "v2")
		s.must(err)
		if after.Revision != before.Revision {
			s.t.Errorf("calls that change nothing wrote %d transactions", after.Revision-before.Revision)
		}
		if err := s.engine.Abort(s.t.Context(), ref); !errors.Is(err, rsync.ErrInvalidState) {
			s.t.Errorf("an abort of a rollout that is done returned %v", err)
		}
	})
}

// TestRolloutPause: a paused rollout begins no cluster until it is resumed.
func TestRolloutPause(t *testing.T) {
	rolloutTest(t, 3, func(s *scene) {
		s.unready("c1", "c2", "c3")
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})))
		s.expect(3, "1,,")
		s.must(s.engine.Pause(s.t.Context(), ref))
		s.becomes(true, "c1")
		s.expect(3, "1,,")
		status := s.waits(ref, "paused")
		s.waitFails(ref, "paused")
		if !status.Paused {
			s.t.Error("it is not paused")
		}
		for c, err := range s.engine.Watch(s.t.Context(), "v1", 1) {
			s.must(err)
			if c.Rollout == ref.Seq {
				break // the watch reports the pause
			}
		}
		s.must(s.engine.Resume(s.t.Context(), ref))
		s.expect(3, "1,1,")
		s.becomes(true, "c2")
		s.becomes(true, "c3")
		s.done(ref, nil)
	})
}

// TestRolloutAbort: an Abort ends a rollout that waits for a cluster. The context can then be
// terminated.
func TestRolloutAbort(t *testing.T) {
	rolloutTest(t, 3, func(s *scene) {
		s.unready("c1")
		ref := s.ref(s.engine.Instantiate(s.t.Context(), "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})))
		s.expect(3, "1,,")
		s.must(s.engine.Abort(s.t.Context(), ref))
		failure := s.failure(rsync.ReasonAborted, ref, nil)
		if !errors.Is(failure, rsync.ErrAborted) ||
			!strings.Contains(failure.Message, "ConfigMap default/x is not ready yet") {
			s.t.Errorf("the error is %v", failure)
		}
		s.expect(3, "1,,")
		s.done(s.engine.Terminate(s.t.Context(), "v1"))
		s.expect(3, ",,")
	})
}

// TestRolloutDependencies: within a rollout, an app waits for its dependency on the same cluster.
func TestRolloutDependencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("v1", "web<db:Ready@c1 x=1; db@c1 y=1; web@c2 x=1; db@c2 y=1")
		s.done(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1"})))
		for _, c := range []string{"c1", "c2"} {
			if got := s.verbs(c); got != "Apply y, Apply x" {
				t.Errorf("%s did %s", c, got)
			}
		}
	})
}

// TestRolloutSkipsUnchangedClusters: a rollout skips the clusters on which the update changes
// nothing.
func TestRolloutSkipsUnchangedClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("v1", "web@c1 x=1; web@c2 x=1; web@c3 x=1")
		s.create("v2", "web@c1 x=1; web@c2 x=2; web@c3 x=1")
		s.done(s.engine.Instantiate(t.Context(), "v1"))
		ref := s.ref(s.engine.Update(t.Context(), "v1", "v2", rsync.WithRollout(rsync.Rollout{
			Until:  appcontext.OpStatusDeployed,
			Groups: []rsync.RolloutGroup{{Name: "all", Clusters: edge("c1", "c2"), ApproveBefore: true}},
		})))
		synctest.Wait()
		got := s.waits(ref, "approval before").Groups
		if want := "[{all 2 0 1 0} { 1 0 1 0}]"; fmt.Sprint(got) != want {
			t.Errorf("the groups are %v, want %s", got, want)
		}
		s.must(s.engine.Approve(t.Context(), ref, rsync.Approval{Group: "all", Gate: rsync.GateBeforeGroup}))
		s.done(ref, nil)
		s.expect(3, "1,2,1")
	})
}

// TestRolloutStatusAfterLaterEvents: later events do not change the status of a rollout, including
// the rollback of that rollout.
func TestRolloutStatusAfterLaterEvents(t *testing.T) {
	rolloutTest(t, 3, func(s *scene) {
		failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
		ref := s.ref(s.engine.Instantiate(t.Context(), "v1",
			rsync.WithRollout(rsync.Rollout{MaxConcurrency: "1", RollbackOnFailure: true})))
		s.fails(rsync.ReasonRefused, ref, nil)
		s.done(*s.rollback(ref), nil)
		s.done(s.engine.Read(t.Context(), "v1"))
		got := s.waits(ref, "").Groups
		if want := "[{ 3 0 1 1}]"; fmt.Sprint(got) != want {
			t.Errorf("the groups are %v, want %s", got, want)
		}
	})
}

// TestRolloutIsDeletedWithEvent: a rollout is deleted from the store together with its event.
func TestRolloutIsDeletedWithEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{HistoryLimit: 2})
		s.create("v1", fleet(1, "1"))
		first := s.ref(s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(rsync.Rollout{})))
		s.done(first, nil)
		for range 3 {
			s.done(s.engine.Read(t.Context(), "v1"))
		}
		if _, err := s.engine.RolloutStatus(t.Context(), first); !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("the status of a forgotten rollout returned %v", err)
		}
		result, err := s.memory.Range(t.Context(), "/context/v1/rollout/")
		if err != nil || len(result.KVs) > 0 {
			t.Errorf("the store has %d rollouts, %v", len(result.KVs), err)
		}
	})
}
