// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"context"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Progress is the progress of a revision on its clusters. During an event it is the progress of that
// event.
type Progress struct {
	// InProgress is whether an event leads to or from the revision, and Rollout whether it is a
	// rollout over the clusters.
	InProgress, Rollout bool
	// LastRollout is the last rollout to the revision, or nil.
	LastRollout *rsync.EventRef
	// Clusters are those that the event has included.
	Clusters map[appcontext.ClusterID]ClusterProgress
}

// ClusterProgress is the progress of a revision on a cluster.
type ClusterProgress struct {
	// Ended is the number of apps that are done there.
	Ended int
	// Failed is whether an app has failed, and Begun whether the turn of the cluster in the rollout
	// has come. Halted is whether the rollout has ended before that turn.
	Failed, Begun, Halted bool
	// Message is about the apps that are not done.
	Message string
}

// Progress returns the progress of a revision. The error is an [rsync.ErrNotFound] if no event of
// the revision was queued.
func (m *Manager) Progress(ctx context.Context, application string, revision int) (Progress, error) {
	status, err := m.engine.Status(ctx, ContextID(application, revision))
	if err != nil {
		return Progress{}, err
	}
	out := Progress{LastRollout: lastRollout(status), Clusters: map[appcontext.ClusterID]ClusterProgress{}}
	event := slices.IndexFunc(status.Queue, func(e rsync.Element) bool { return !e.Status.Final() })
	out.InProgress = event >= 0
	out.Rollout = out.InProgress && status.Queue[event].Rollout
	for _, c := range status.Clusters {
		p, current := out.Clusters[c.Cluster], !out.InProgress || c.Seq == status.Queue[event].Seq
		switch {
		case !current: // of an earlier event
		case c.Phase == rsync.PhaseDone || c.Phase == rsync.PhaseSkipped:
			p.Ended++
		default:
			p.Halted = p.Halted || halted(c)
			p.Failed = p.Failed || c.Phase == rsync.PhaseFailed && !halted(c)
			if c.Message == "" {
				c.Message = "in progress"
			}
			p.Message = strings.TrimPrefix(p.Message+"; "+c.App+": "+c.Message, "; ")
		}
		p.Begun = p.Begun || out.InProgress && current && !c.Begun.IsZero()
		out.Clusters[c.Cluster] = p
	}
	return out, nil
}

// halted reports whether a rollout has ended before it began on a cluster.
func halted(c rsync.ClusterStatus) bool {
	return c.Phase == rsync.PhaseFailed && c.Begun.IsZero() &&
		(c.Reason == rsync.ReasonMaxFailures || c.Reason == rsync.ReasonAborted)
}

// InProgress returns the progress of the oldest revision with an event in progress. It returns an
// empty Progress without one.
func (m *Manager) InProgress(ctx context.Context, application string) (Progress, error) {
	stored, _, err := m.Revisions(ctx, application)
	if err != nil {
		return Progress{}, err
	}
	for _, r := range stored {
		if p, err := m.Progress(ctx, application, r.Number); err == nil && p.InProgress {
			return p, nil
		}
	}
	return Progress{}, nil
}
