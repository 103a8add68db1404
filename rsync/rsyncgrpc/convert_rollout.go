// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// rolloutMessage returns the message of a rollout, or nil.
func rolloutMessage(r *rsync.Rollout) *rsyncv1.Rollout {
	if r == nil {
		return nil
	}
	out := &rsyncv1.Rollout{
		MaxConcurrency: r.MaxConcurrency, MaxFailures: r.MaxFailures, Until: string(r.Until),
		MinSuccessTime: durationMessage(r.MinSuccessTime), ProgressDeadline: durationMessage(r.ProgressDeadline),
		RollbackOnFailure: r.RollbackOnFailure,
	}
	for _, g := range r.Groups {
		group := &rsyncv1.RolloutGroup{
			Name: g.Name, MaxConcurrency: g.MaxConcurrency, MaxFailures: g.MaxFailures,
			ApproveBefore: g.ApproveBefore, Wait: durationMessage(g.Wait), ApproveAfter: g.ApproveAfter,
		}
		for _, c := range g.Clusters {
			group.Clusters = append(group.Clusters, clusterMessage(c))
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

// rolloutOf returns the rollout of a message, or nil. The engine validates it.
func rolloutOf(m *rsyncv1.Rollout) *rsync.Rollout {
	if m == nil {
		return nil
	}
	out := &rsync.Rollout{
		MaxConcurrency: m.MaxConcurrency, MaxFailures: m.MaxFailures, Until: appcontext.OpStatus(m.Until),
		MinSuccessTime: m.MinSuccessTime.AsDuration(), ProgressDeadline: m.ProgressDeadline.AsDuration(),
		RollbackOnFailure: m.RollbackOnFailure,
	}
	for _, g := range m.Groups {
		group := rsync.RolloutGroup{
			Name: g.GetName(), MaxConcurrency: g.GetMaxConcurrency(), MaxFailures: g.GetMaxFailures(),
			ApproveBefore: g.GetApproveBefore(), Wait: g.GetWait().AsDuration(), ApproveAfter: g.GetApproveAfter(),
		}
		for _, c := range g.GetClusters() {
			group.Clusters = append(group.Clusters, clusterOf(c))
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func durationMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func rolloutStatusMessage(s *rsync.RolloutStatus) *rsyncv1.RolloutStatus {
	out := &rsyncv1.RolloutStatus{
		Ref: refMessage(s.Ref), Rollout: rolloutMessage(&s.Rollout), Status: string(s.Status), Paused: s.Paused,
		Aborted: s.Aborted, Waiting: s.Waiting,
	}
	for _, a := range s.Approved {
		out.Approved = append(out.Approved, &rsyncv1.Approval{Group: a.Group, Gate: string(a.Gate)})
	}
	for _, g := range s.Groups {
		out.Groups = append(out.Groups, &rsyncv1.RolloutGroupStatus{
			Name: g.Name, Clusters: int64(g.Clusters), InProgress: int64(g.InProgress), Succeeded: int64(g.Succeeded),
			Failed: int64(g.Failed),
		})
	}
	return out
}

func rolloutStatusOf(m *rsyncv1.RolloutStatus) (*rsync.RolloutStatus, error) {
	if m.GetRollout() == nil {
		return nil, fmt.Errorf("the server returned no rollout: %w", rsync.ErrBroken)
	}
	out := &rsync.RolloutStatus{
		Ref: refOf(m.Ref), Rollout: *rolloutOf(m.Rollout), Status: rsync.ElementStatus(m.Status), Paused: m.Paused,
		Aborted: m.Aborted, Waiting: m.Waiting,
	}
	for _, a := range m.Approved {
		out.Approved = append(out.Approved, rsync.Approval{Group: a.GetGroup(), Gate: rsync.Gate(a.GetGate())})
	}
	for _, g := range m.Groups {
		out.Groups = append(out.Groups, rsync.RolloutGroupStatus{
			Name: g.GetName(), Clusters: int(g.GetClusters()), InProgress: int(g.GetInProgress()),
			Succeeded: int(g.GetSucceeded()), Failed: int(g.GetFailed()),
		})
	}
	return out, nil
}
