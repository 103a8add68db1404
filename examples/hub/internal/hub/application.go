// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// progressing returns the status of something that is not in sync yet.
func progressing(reason string) status.Status {
	return status.Status{Sync: status.OutOfSync, Health: status.Progressing, Reason: reason}
}

// failed returns the status of something that could not be brought in sync.
func failed(reason string) status.Status {
	return status.Status{Sync: status.OutOfSync, Health: status.Degraded, Reason: reason}
}

// settled is the rollout that has led to the status of an application.
type settled struct {
	since   time.Time // of the status
	rollout *status.Rollout
}

// application returns the status of an application, with its placements.
func (v *view) application(ctx context.Context, name string) status.Application {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // an error of the store only hides progress
	defer cancel()
	s, _ := v.options.Rollouts.Status(name)
	a := v.applications[name]
	out := status.Application{Name: name, Held: a.held, On: status.Counts{}}
	var to, from revisions.Progress
	done := s.State == revisions.Deployed && s.Settled
	if last, _ := v.rollouts.Load(name); done && last != nil && last.(settled).since.Equal(s.Since) {
		out.Rollout = last.(settled).rollout
	} else {
		to, _ = v.options.Rollouts.Progress(ctx, name, s.Revision)
		from, _ = v.options.Rollouts.Progress(ctx, name, s.From)
		out.Rollout = v.rollout(ctx, to)
		if done && ctx.Err() == nil {
			v.rollouts.Store(name, settled{s.Since, out.Rollout})
		}
	}
	r := v.reach(a, s, v.byName[name])
	if s.State == revisions.Rolling {
		if out.Rollout != nil {
			s.Message = out.Rollout.Waiting
		}
		r.await(a, s, to, v.current(ctx, name, to))
	}
	if s.Revision != 0 {
		out.Revision = strconv.Itoa(s.Revision)
	}
	for _, c := range v.set.On(name) {
		r.at(c.Metadata.Name).placed = true
	}
	for _, on := range r {
		on.suspended = s.State == revisions.Rolling && out.Rollout.Suspended()
	}
	var worst *status.Placement
	for _, cluster := range slices.Sorted(maps.Keys(r)) {
		on := r[cluster]
		if !on.placed && len(on.works) == 0 {
			continue
		}
		p := status.Placement{Application: name, Cluster: cluster, Status: v.placement(cluster, on, a, to, s)}
		if _, there := from.Clusters[document.ClusterID(cluster)]; there && slices.ContainsFunc(on.works, wasApplied) {
			p.Revision = strconv.Itoa(s.From)
		}
		if (a.done(to.Clusters[document.ClusterID(cluster)]) || s.State == revisions.Deployed) && on.all() {
			p.Revision = out.Revision
		}
		out.On[p.Health]++
		out.Placements = append(out.Placements, p)
		if worst == nil || p.Health.Rank() > worst.Health.Rank() {
			worst = &p
		}
	}
	out.Status = v.own(a, s, r, out.Rollout, name)
	if worst != nil {
		out.Status = out.Over(out.On, "clusters", worst.Cluster+": "+worst.Reason)
	}
	if a.held != 0 {
		out.Reason = strings.TrimPrefix(
			fmt.Sprintf("%s; held at revision %d until its document changes", out.Reason, a.held), "; ")
	}
	return out
}

// own returns the status of an application without the health of its clusters.
func (v *view) own(a application, s revisions.Status, r reach, progress *status.Rollout, name string) status.Status {
	deployed, documented := s.State == revisions.Deployed, v.set.Document(document.ApplicationKind, name) != nil
	waiting, refused := r.summary()
	out := progressing(waiting)
	out.Since = s.Since
	switch {
	case a.problem != "":
		out = failed(a.problem)
		out.Since = a.since
	case s.State == revisions.Failed:
		out.Health, out.Reason = status.Degraded, s.Message
	case refused != "" && s.Revision != 0:
		out = failed(refused)
	case deployed && waiting == "" && s.Settled:
		out = status.Status{Sync: status.Synced, Health: status.Healthy, Since: s.Since}
	case s.State == revisions.Rolling && s.Revision == 0:
		out.Reason = strings.TrimSuffix("it is being removed; "+waiting, "; ")
	case s.State == revisions.Unplaced:
		out.Sync, out.Health, out.Reason = status.Synced, status.Missing, "no placement selects a cluster for it"
	case s.State == "" && v.documents.Accepted.IsZero():
		out.Sync, out.Health, out.Reason = status.SyncUnknown, status.Unknown, "this replica has not loaded the documents"
	case s.State == "" && !documented:
		out.Health, out.Reason = status.Unknown, "the application has no document, but works"
	case s.State == revisions.Rolling:
		if out.Reason = cmp.Or(s.Message, waiting); progress.Suspended() {
			out.Health = status.Suspended
		}
	}
	return out
}

// rollout returns the progress of the rollout to a revision, or nil.
func (v *view) rollout(ctx context.Context, to revisions.Progress) *status.Rollout {
	if to.LastRollout == nil {
		return nil
	}
	s, err := v.options.Rollouts.Engine().RolloutStatus(ctx, *to.LastRollout)
	if err != nil {
		return nil
	}
	out := &status.Rollout{
		Status: string(s.Status), Waiting: s.Waiting, Needs: s.Needs, Paused: s.Paused, Aborted: s.Aborted,
	}
	for _, g := range s.Groups {
		out.Groups = append(out.Groups, status.RolloutGroup(g))
	}
	return out
}

// wasApplied reports whether the agent has reported any generation of a work as applied.
func wasApplied(w workhealth.Work) bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
}

// current returns the progress of the event that a rollout waits for: of the wanted revision, or of
// another one.
func (v *view) current(ctx context.Context, application string, to revisions.Progress) revisions.Progress {
	if !to.InProgress {
		to, _ = v.options.Rollouts.InProgress(ctx, application)
	}
	return to
}

// done reports whether all parts of an application are done on a cluster.
func (a *application) done(p revisions.ClusterProgress) bool {
	return a.rendering != nil && p.Ended >= len(a.rendering.Apps)
}

// placement returns the status of an application on a cluster.
func (v *view) placement(
	cluster string, on *reached, a application, to revisions.Progress, s revisions.Status,
) status.Status {
	p := to.Clusters[document.ClusterID(cluster)]
	done := a.done(p) || s.State == revisions.Deployed && s.Settled
	on.turn = p.Halted || to.Rollout && !p.Begun && !done && !p.Failed
	out := on.status(p, done, v.now)
	if on.turn {
		out.Sync = status.OutOfSync
		why := "waits for its turn in the rollout"
		if p.Halted {
			why = "the rollout has ended before its turn"
		}
		out.Reason = strings.TrimSuffix(why+"; "+out.Reason, "; ")
	}
	switch c, why := v.agent(cluster); {
	case c == status.NeverJoined:
		return status.Status{Sync: status.OutOfSync, Health: status.Missing, Reason: why}
	case c == status.Silent || c == status.Revoked:
		last := strings.TrimSuffix(fmt.Sprintf("%s; last reported: %s, %s", why, out.Health, out.Reason), ", ")
		return status.Status{Sync: status.SyncUnknown, Health: status.Unknown, Reason: last}
	case on.unreachable != "":
		return status.Status{Sync: status.SyncUnknown, Health: status.Unknown, Reason: on.unreachable}
	}
	return out
}

// status returns the status of an application on a cluster: a failure of the rollout, then failed
// objects, then the progress of the agent, then the worst health of the objects.
func (r *reached) status(p revisions.ClusterProgress, done bool, now time.Time) status.Status {
	worst, name := status.Status{Sync: status.Synced, Health: status.Healthy}, ""
	for _, w := range r.works {
		for i := range w.Objects {
			if o := w.Objects[i].At(now, workhealth.ProgressDeadline); name == "" || o.Health.Rank() > worst.Health.Rank() {
				worst, name = o, w.Objects[i].Object.String()
			}
		}
	}
	if worst.Reason != "" {
		worst.Reason = name + ": " + worst.Reason
	}
	waits := progressing("")
	if r.suspended {
		waits.Health = status.Suspended
	}
	bad := worst.Health == status.Degraded || worst.Health == status.Missing
	if worst.Sync = status.Synced; !r.all() || r.busy || r.left != "" {
		worst.Sync = status.OutOfSync
	}
	switch {
	case p.Failed:
		return failed(p.Message)
	case bad:
		return worst
	case r.refused != "":
		return failed(r.refused)
	case r.applied() && r.leaving > 0:
		return progressing(cmp.Or(p.Message, "its agent has not cleaned up yet"))
	case r.turn && name == "":
		return waits
	case !r.all() || name == "" && !done:
		return progressing(cmp.Or(p.Message, "its agent has not applied it yet"))
	case r.busy:
		return progressing(cmp.Or(r.message, "the rollout continues there"))
	case r.left != "" && !r.turn: // before its turn, a cluster has the previous revision
		waits.Reason = r.left
		return waits
	case r.degraded != "":
		return status.Status{Sync: status.Synced, Health: status.Degraded, Reason: r.degraded}
	}
	return worst
}
