// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// TestRollout: a client starts, watches and controls rollouts as on the engine itself.
func TestRollout(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "v1", "1", "c1", "c2", "c3")))
	check(t, client.Create(ctx, shop(t, "v2", "2", "c1", "c2", "c3")))
	rollout := rsync.Rollout{
		Groups: []rsync.RolloutGroup{{
			Name: "canary", Clusters: []appcontext.ClusterID{{Provider: "edge", Name: "c2"}}, MaxConcurrency: "1",
			MaxFailures:   "50%",
			ApproveBefore: true, Wait: time.Millisecond, ApproveAfter: true,
		}},
		MaxConcurrency: "50%", MaxFailures: "1", Until: appcontext.OpStatusReady, MinSuccessTime: time.Millisecond,
		ProgressDeadline: time.Minute,
	}
	ref := must[rsync.EventRef](t)(client.Instantiate(ctx, "v1", rsync.WithRollout(rollout)))
	status := must[*rsync.RolloutStatus](t)(client.RolloutStatus(ctx, ref))
	if !reflect.DeepEqual(status.Rollout, rollout) {
		t.Errorf("the rollout arrived as %+v, want %+v", status.Rollout, rollout)
	}
	gate := &rsync.Approval{Group: "canary", Gate: rsync.GateBeforeGroup}
	if !reflect.DeepEqual(status.Needs, gate) {
		t.Errorf("the rollout needs the approval %+v, want %+v", status.Needs, gate)
	}
	check(t, client.Pause(ctx, ref))
	for _, gate := range []rsync.Gate{rsync.GateBeforeGroup, rsync.GateAfterGroup} {
		check(t, client.Approve(ctx, ref, rsync.Approval{Group: "canary", Gate: gate}))
	}
	remoteStatus := must[*rsync.RolloutStatus](t)(client.RolloutStatus(ctx, ref))
	localStatus := must[*rsync.RolloutStatus](t)(s.engine.RolloutStatus(ctx, ref))
	if !reflect.DeepEqual(remoteStatus, localStatus) || !localStatus.Paused || len(localStatus.Approved) != 2 {
		t.Errorf("the client has %+v, the engine %+v", remoteStatus, localStatus)
	}
	check(t, client.Resume(ctx, ref))
	must[*rsync.Status](t)(client.Wait(ctx, ref))

	gated := rsync.Rollout{Groups: []rsync.RolloutGroup{{Name: "never", ApproveBefore: true}}, RollbackOnFailure: true}
	ref = must[rsync.EventRef](t)(client.Update(ctx, "v1", "v2", rsync.WithRollout(gated)))
	check(t, client.Abort(ctx, ref))
	if _, err := client.Wait(ctx, ref); !errors.Is(err, rsync.ErrAborted) {
		t.Errorf("an aborted rollout ended with %v", err)
	}
	element := must[*rsync.Status](t)(client.Status(ctx, "v2")).Element(ref.Seq)
	if !element.Rollout || element.Rollback == nil {
		t.Fatalf("the event is %+v, want a rollback", element)
	}
	must[*rsync.Status](t)(client.Wait(ctx, *element.Rollback))
	for c, err := range client.Watch(ctx, "v1", 1) {
		if check(t, err); c.Rollout != 0 {
			break // a pause, or a later change
		}
	}
}

// TestLargeRollout: a rollout may name thousands of clusters. A rollout that exceeds the limit of
// the engine is refused.
func TestLargeRollout(t *testing.T) {
	_, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	var names []string
	for i := range 4000 {
		names = append(names, fmt.Sprintf("cluster-of-a-large-fleet-%05d", i))
	}
	check(t, client.Create(ctx, shop(t, "v1", "1", names...)))
	group := rsync.RolloutGroup{Name: "all", ApproveBefore: true}
	for _, name := range names {
		group.Clusters = append(group.Clusters, appcontext.ClusterID{Provider: "edge", Name: name})
	}
	ref := must[rsync.EventRef](t)(
		client.Instantiate(ctx, "v1", rsync.WithRollout(rsync.Rollout{Groups: []rsync.RolloutGroup{group}})))
	check(t, client.Abort(ctx, ref))
	group.Name, group.Clusters = strings.Repeat("x", 2<<20), nil
	if _, err := client.Instantiate(ctx, "v1",
		rsync.WithRollout(rsync.Rollout{Groups: []rsync.RolloutGroup{group}})); err == nil ||
		!strings.Contains(err.Error(), "the limit is 1048576") {
		t.Errorf("a rollout of 2 MiB returned %v", err)
	}
}

// TestRolloutErrors: errors of rollouts equal those of the engine.
func TestRolloutErrors(t *testing.T) {
	_, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, client.Create(ctx, shop(t, "v1", "1", "c1")))
	_, err := client.Instantiate(ctx, "v1", rsync.WithRollout(rsync.Rollout{MaxConcurrency: "0"}))
	if !errors.Is(err, rsync.ErrInvalidInput) || !strings.Contains(err.Error(), "Rollout.MaxConcurrency: \"0\": must be") {
		t.Errorf("MaxConcurrency 0 returned %v", err)
	}
	none := rsync.EventRef{AppContextID: "v1", Seq: 1}
	for name, err := range map[string]error{
		"status": func() error { _, err := client.RolloutStatus(ctx, none); return err }(), "pause": client.Pause(ctx, none),
		"approve": client.Approve(ctx, none, rsync.Approval{Group: "a", Gate: rsync.GateAfterGroup}),
	} {
		if !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("%s of an unknown event returned %v", name, err)
		}
	}
}
