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

func rolloutMessage(r *rsync.Rollout) *rsyncv1.Rollout {
	if r == nil {
		return nil
	}
	return &rsyncv1.Rollout{
		MaxConcurrency: r.MaxConcurrency, MaxFailures: r.MaxFailures, Until: string(r.Until),
		MinSuccessTime: durationMessage(r.MinSuccessTime), ProgressDeadline: durationMessage(r.ProgressDeadline),
		RollbackOnFailure: r.RollbackOnFailure,
		Groups: messagesOf(r.Groups, func(g *rsync.RolloutGroup) *rsyncv1.RolloutGroup {
			return &rsyncv1.RolloutGroup{
				Name: g.Name, MaxConcurrency: g.MaxConcurrency, MaxFailures: g.MaxFailures,
				ApproveBefore: g.ApproveBefore, Wait: durationMessage(g.Wait), ApproveAfter: g.ApproveAfter,
				Clusters: messagesOf(g.Clusters, clusterMessage),
			}
		}),
	}
}

// rolloutOf returns the rollout of a message. The engine validates it.
func rolloutOf(m *rsyncv1.Rollout) *rsync.Rollout {
	if m == nil {
		return nil
	}
	return &rsync.Rollout{
		MaxConcurrency: m.MaxConcurrency, MaxFailures: m.MaxFailures, Until: appcontext.OpStatus(m.Until),
		MinSuccessTime: m.MinSuccessTime.AsDuration(), ProgressDeadline: m.ProgressDeadline.AsDuration(),
		RollbackOnFailure: m.RollbackOnFailure,
		Groups: valuesOf(m.Groups, func(g *rsyncv1.RolloutGroup) rsync.RolloutGroup {
			return rsync.RolloutGroup{
				Name: g.GetName(), MaxConcurrency: g.GetMaxConcurrency(), MaxFailures: g.GetMaxFailures(),
				ApproveBefore: g.GetApproveBefore(), Wait: g.GetWait().AsDuration(), ApproveAfter: g.GetApproveAfter(),
				Clusters: valuesOf(g.GetClusters(), clusterOf),
			}
		}),
	}
}

func durationMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func rolloutStatusMessage(s *rsync.RolloutStatus) *rsyncv1.RolloutStatus {
	out := &rsyncv1.RolloutStatus{
		Ref: refMessage(&s.Ref), Rollout: rolloutMessage(&s.Rollout), Status: string(s.Status), Paused: s.Paused,
		Aborted: s.Aborted, Waiting: s.Waiting, Approved: messagesOf(s.Approved, approvalMessage),
		Groups: messagesOf(s.Groups, func(g *rsync.RolloutGroupStatus) *rsyncv1.RolloutGroupStatus {
			return &rsyncv1.RolloutGroupStatus{
				Name: g.Name, Clusters: int64(g.Clusters), InProgress: int64(g.InProgress),
				Succeeded: int64(g.Succeeded), Failed: int64(g.Failed),
			}
		}),
	}
	if s.Needs != nil {
		out.Needs = approvalMessage(s.Needs)
	}
	return out
}

func rolloutStatusOf(m *rsyncv1.RolloutStatus) (*rsync.RolloutStatus, error) {
	if m.GetRollout() == nil {
		return nil, fmt.Errorf("the server returned no rollout: %w", rsync.ErrBroken)
	}
	out := &rsync.RolloutStatus{
		Ref: refOf(m.Ref), Rollout: *rolloutOf(m.Rollout), Status: rsync.ElementStatus(m.Status), Paused: m.Paused,
		Aborted: m.Aborted, Waiting: m.Waiting, Approved: valuesOf(m.Approved, approvalOf),
		Groups: valuesOf(m.Groups, func(g *rsyncv1.RolloutGroupStatus) rsync.RolloutGroupStatus {
			return rsync.RolloutGroupStatus{
				Name: g.GetName(), Clusters: int(g.GetClusters()), InProgress: int(g.GetInProgress()),
				Succeeded: int(g.GetSucceeded()), Failed: int(g.GetFailed()),
			}
		}),
	}
	if m.Needs != nil {
		needs := approvalOf(m.Needs)
		out.Needs = &needs
	}
	return out, nil
}

func approvalMessage(a *rsync.Approval) *rsyncv1.Approval {
	return &rsyncv1.Approval{Group: a.Group, Gate: string(a.Gate)}
}

func approvalOf(m *rsyncv1.Approval) rsync.Approval {
	return rsync.Approval{Group: m.GetGroup(), Gate: rsync.Gate(m.GetGate())}
}
