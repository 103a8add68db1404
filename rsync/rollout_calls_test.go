// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// TestInvalidRollout: an invalid rollout is rejected before anything is queued. The error names the
// field.
func TestInvalidRollout(t *testing.T) {
	s := newScene(t, nil, rsync.Options{})
	s.create("v1", "web@c1 x=1; web@c2 x=1; db@c1 y=1")
	s.create("v2", "web<db@c1 x=2; db@c2 y=2")
	group := func(g rsync.RolloutGroup) rsync.Rollout { return rsync.Rollout{Groups: []rsync.RolloutGroup{g}} }
	for want, r := range map[string]rsync.Rollout{
		`Rollout.Until: "Applied": must be Deployed or Ready`: {
			Until: "Applied",
		},
		`Rollout.MinSuccessTime: -1s: must not be negative`: {
			MinSuccessTime: -time.Second,
		},
		`Rollout.ProgressDeadline: -1s: must not be negative`: {
			ProgressDeadline: -time.Second,
		},
		`Rollout.MinSuccessTime: 1s: needs Until Ready`: {
			MinSuccessTime: time.Second, Until: appcontext.OpStatusDeployed,
		},
		`Rollout.MinSuccessTime: 1m0s: must be shorter than ProgressDeadline, which is 1m0s`: {
			MinSuccessTime: time.Minute, ProgressDeadline: time.Minute,
		},
		`Rollout.MaxConcurrency: "0": must be a number from 1, or a percentage from 1% to 100%`: {
			MaxConcurrency: "0", MaxFailures: "0",
		},
		`Rollout.MaxConcurrency: "0%": must be a number from 1, or a percentage from 1% to 100%`: {
			MaxConcurrency: "0%",
		},
		`Rollout.MaxConcurrency: "some": must be a number from 1, or a percentage from 1% to 100%`: {
			MaxConcurrency: "some",
		},
		`Rollout.MaxFailures: "-1": must be a number from 0, or a percentage from 0% to 100%`: {
			MaxFailures: "-1",
		},
		`Rollout.Groups[0].Name: must be set`: group(
			rsync.RolloutGroup{}),
		`Rollout.Groups[0].Name: must have 253 bytes at most`: group(
			rsync.RolloutGroup{Name: strings.Repeat("x", 254)}),
		`Rollout.Groups[0].Name: "\xff": must be UTF-8`: group(
			rsync.RolloutGroup{Name: "\xff"}),
		`Rollout.Groups: a rollout of 822535 bytes with all approvals: the limit is 524288`: manyGates(),
		`Rollout.Groups[0].Wait: -1s: must not be negative`: group(
			rsync.RolloutGroup{Name: "a", Wait: -time.Second}),
		`Rollout.Groups[0].MaxConcurrency: "101%": must be a number from 1, or a percentage from 1% to 100%`: group(
			rsync.RolloutGroup{Name: "a", MaxConcurrency: "101%"}),
		`Rollout.Groups[0].MaxFailures: "x%": must be a number from 0, or a percentage from 0% to 100%`: group(
			rsync.RolloutGroup{Name: "a", MaxFailures: "x%"}),
		`Rollout.Groups[0].Clusters[1]: edge+c9: app context "v1" has no app on this cluster`: group(
			rsync.RolloutGroup{Name: "a", Clusters: edge("c1", "c9")}),
		`Rollout.Groups[0].Clusters[1]: edge+c1: is in group "a" already`: group(
			rsync.RolloutGroup{Name: "a", Clusters: edge("c1", "c1")}),
		`Rollout.Groups[1].Clusters[0]: edge+c2: is in group "a" already`: {
			Groups: []rsync.RolloutGroup{{Name: "a", Clusters: edge("c2")}, {Name: "b", Clusters: edge("c2")}},
		},
		`Rollout.Groups[1].Name: "a": is the name of an earlier group`: {
			Groups: []rsync.RolloutGroup{{Name: "a"}, {Name: "a"}},
		},
	} {
		_, err := s.engine.Instantiate(t.Context(), "v1", rsync.WithRollout(r))
		if !errors.Is(err, rsync.ErrInvalidInput) || err.Error() != "invalid input: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
		var field *rsync.InvalidRolloutError
		if !errors.As(err, &field) || field.Field != strings.TrimPrefix(strings.SplitN(want, ":", 2)[0], "Rollout.") {
			t.Errorf("the field of %v is %+v", err, field)
		}
		c := &appcontext.AppContext{ID: "v1", Apps: []appcontext.App{{Name: "web"}}}
		for _, id := range edge("c1", "c2") {
			c.Apps[0].Clusters = append(c.Apps[0].Clusters, appcontext.Cluster{ClusterID: id})
		}
		if alone := r.Validate(c); alone == nil || alone.Error() != err.Error() {
			t.Errorf("Validate returned %v, and the engine %v", alone, err)
		}
	}
	if err := (&rsync.Rollout{}).Validate(nil); !errors.Is(err, rsync.ErrInvalidInput) {
		t.Errorf("Validate of no context returned %v", err)
	}
	// web on c1 waits for db, which is only on c2.
	for want, r := range map[string]rsync.Rollout{
		`Rollout.Groups: app "web" on edge+c1 waits for app "db", which must be on clusters of earlier groups only`: group(
			rsync.RolloutGroup{Name: "a", Clusters: edge("c1")}),
		`Rollout.Groups: app "web" on edge+c1 waits for app "db", which must be on clusters of earlier groups only `: {
			MaxConcurrency: "1",
		},
	} {
		if _, err := s.engine.Instantiate(t.Context(), "v2", rsync.WithRollout(r)); err == nil ||
			err.Error() != "invalid input: "+strings.TrimSpace(want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s.done(s.engine.Instantiate(t.Context(), "v2",
		rsync.WithRollout(group(rsync.RolloutGroup{Name: "a", Clusters: edge("c2")}))))
	for name, call := range map[string]func() error{
		"Terminate": func() error {
			return ignore(s.engine.Terminate(t.Context(), "v2",
				rsync.WithRollout(rsync.Rollout{})))
		},
		"Read": func() error { return ignore(s.engine.Read(t.Context(), "v2", rsync.WithRollout(rsync.Rollout{}))) },
	} {
		if err := call(); err == nil ||
			err.Error() != "invalid input: "+name+" cannot have a rollout, only Instantiate and Update" {
			t.Errorf("%s returned %v", name, err)
		}
	}
	if status, err := s.engine.Status(t.Context(), "v1"); err != nil || len(status.Queue) > 0 {
		t.Errorf("events were queued: %+v, %v", status, err)
	}
}

func ignore(_ rsync.EventRef, err error) error { return err }

// TestInvalidRolloutCalls: invalid calls on a rollout return an error that names the problem.
func TestInvalidRolloutCalls(t *testing.T) {
	rolloutTest(t, 1, func(s *scene) {
		ctx := s.t.Context()
		plain := s.ref(s.engine.Instantiate(ctx, "v1"))
		s.done(plain, nil)
		for _, ref := range []rsync.EventRef{plain, {AppContextID: "v1", Seq: 9}, {AppContextID: "v9", Seq: 1}} {
			if _, err := s.engine.RolloutStatus(ctx, ref); !errors.Is(err, rsync.ErrNotFound) {
				s.t.Errorf("the status of %v returned %v", ref, err)
			}
			if err := s.engine.Pause(ctx, ref); !errors.Is(err, rsync.ErrNotFound) {
				s.t.Errorf("a pause of %v returned %v", ref, err)
			}
		}
		r := rsync.Rollout{Groups: []rsync.RolloutGroup{{Name: "a", ApproveAfter: true}}}
		ref := s.ref(s.engine.Update(ctx, "v1", "v2", rsync.WithRollout(r), rsync.IdempotencyKey("k")))
		for _, a := range []rsync.Approval{{Group: "a", Gate: rsync.GateBeforeGroup},
			{Group: "b", Gate: rsync.GateAfterGroup}, {Group: "a"}} {
			err := s.engine.Approve(ctx, ref, a)
			if !errors.Is(err, rsync.ErrInvalidInput) || !strings.Contains(err.Error(), "the gates of the group are") {
				s.t.Errorf("approval %v returned %v", a, err)
			}
		}
		if again := s.ref(s.engine.Update(ctx, "v1", "v2", rsync.WithRollout(r), rsync.IdempotencyKey("k"))); again != ref {
			s.t.Errorf("the same call with the same key is event %v, and was %v", again, ref)
		}
		for _, other := range [][]rsync.CallOption{
			{rsync.IdempotencyKey("k")}, {rsync.IdempotencyKey("k"), rsync.WithRollout(rsync.Rollout{MaxFailures: "1"})},
		} {
			if _, err := s.engine.Update(ctx, "v1", "v2", other...); !errors.Is(err, rsync.ErrInvalidInput) {
				s.t.Errorf("another rollout with the same key returned %v", err)
			}
		}
		s.must(s.engine.Approve(ctx, ref, rsync.Approval{Group: "a", Gate: rsync.GateAfterGroup}))
		s.done(ref, nil)
	})
}

// manyGates returns a rollout with groups that fit in the store without their approvals, but not
// with them.
func manyGates() rsync.Rollout {
	r := rsync.Rollout{}
	for i := range 700 {
		r.Groups = append(r.Groups, rsync.RolloutGroup{Name: fmt.Sprintf("%0250d", i), ApproveBefore: true,
			ApproveAfter: true})
	}
	return r
}
