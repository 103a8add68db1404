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
	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/rsync"
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
	a, out := v.applications[name], status.Application{Name: name, On: status.Counts{}}
	out.Held = a.held
	var to, from phases
	done := s.State == rollout.Deployed && s.Settled
	if last, _ := v.rollouts.Load(name); done && last != nil && last.(settled).since.Equal(s.Since) {
		out.Rollout = last.(settled).rollout
	} else {
		to, from = v.phases(ctx, name, s.Revision), v.phases(ctx, name, s.From)
		out.Rollout = v.rollout(ctx, to)
		if done && ctx.Err() == nil {
			v.rollouts.Store(name, settled{s.Since, out.Rollout})
		}
	}
	r := v.reach(a, s, v.byName[name])
	if s.State == rollout.Rolling {
		if out.Rollout != nil {
			s.Message = out.Rollout.Waiting
		}
		r.await(a, s, to, v.underway(ctx, name, to, from))
	}
	if s.Revision != 0 {
		out.Revision = strconv.Itoa(s.Revision)
	}
	for _, c := range v.set.On(name) {
		r.at(c.Metadata.Name).placed = true
	}
	for _, on := range r {
		on.suspended = s.State == rollout.Rolling && out.Rollout.Suspended()
	}
	var worst *status.Placement
	for _, cluster := range slices.Sorted(maps.Keys(r)) {
		on := r[cluster]
		if !on.placed && len(on.works) == 0 {
			continue
		}
		p := status.Placement{Application: name, Cluster: cluster, Status: v.placement(cluster, on, to, s)}
		if _, there := from.on[cluster]; there && slices.ContainsFunc(on.works, wasApplied) {
			p.Revision = strconv.Itoa(s.From)
		}
		if (to.on[cluster].done || s.State == rollout.Deployed) && on.all() {
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
func (v *view) own(a application, s rollout.Status, r reach, progress *status.Rollout, name string) status.Status {
	deployed, documented := s.State == rollout.Deployed, v.set.Document(document.ApplicationKind, name) != nil
	waiting, refused := r.summary()
	out := progressing(waiting)
	out.Since = s.Since
	switch {
	case a.problem != "":
		out = failed(a.problem)
		out.Since = a.since
	case s.State == rollout.Failed:
		out.Health, out.Reason = status.Degraded, s.Message
	case refused != "" && s.Revision != 0:
		out = failed(refused)
	case deployed && waiting == "" && s.Settled:
		out = status.Status{Sync: status.Synced, Health: status.Healthy, Since: s.Since}
	case s.State == rollout.Rolling && s.Revision == 0:
		out.Reason = strings.TrimSuffix("it is being removed; "+waiting, "; ")
	case s.State == rollout.Unplaced:
		out.Sync, out.Health, out.Reason = status.Synced, status.Missing, "no placement selects a cluster for it"
	case s.State == "" && v.documents.Accepted.IsZero():
		out.Sync, out.Health, out.Reason = status.SyncUnknown, status.Unknown, "this replica has not loaded the documents"
	case s.State == "" && !documented:
		out.Health, out.Reason = status.Unknown, "the application has no document, but works"
	case s.State == rollout.Rolling:
		if out.Reason = cmp.Or(s.Message, waiting); progress.Suspended() {
			out.Health = status.Suspended
		}
	}
	return out
}

// rollout returns the progress of the rollout to a revision, or nil.
func (v *view) rollout(ctx context.Context, to phases) *status.Rollout {
	if to.last == nil {
		return nil
	}
	s, err := v.options.Engine.RolloutStatus(ctx, *to.last)
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
func wasApplied(w health.Work) bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
}

// phase is the progress of all parts of an application on a cluster.
type phase struct {
	ended        int // parts that are done
	done, failed bool
	begun        bool   // its turn in the rollout has started
	turn         bool   // it waits for its turn
	message      string // of the parts that are not done
}

// phases is the progress of a revision, by cluster. During an event it is the progress of that
// event.
type phases struct {
	underway bool
	rollout  bool            // the event in progress is a rollout
	last     *rsync.EventRef // the last rollout to the revision, or nil
	on       map[string]phase
}

// phases returns the progress of a revision.
func (v *view) phases(ctx context.Context, application string, revision int) phases {
	out := phases{on: map[string]phase{}}
	status, err := v.options.Engine.Status(ctx, rollout.ContextID(application, revision))
	if err != nil {
		return out
	}
	parts := 0
	if d := document.Get[*document.Application](v.set, document.ApplicationKind, application); d != nil {
		parts = len(d.Spec.Parts)
	}
	event := slices.IndexFunc(status.Queue, func(e rsync.Element) bool { return !e.Status.Final() })
	out.underway = event >= 0
	if ref, ok := rollout.LastRollout(status); ok {
		out.last = &ref
	}
	out.rollout = out.underway && status.Queue[event].Rollout
	for _, c := range status.Clusters {
		p := out.on[c.Cluster.Name]
		switch {
		case out.underway && c.Seq != status.Queue[event].Seq: // of an earlier event
		case c.Phase == rsync.PhaseDone || c.Phase == rsync.PhaseSkipped:
			p.ended++
		default:
			p.failed = p.failed || c.Phase == rsync.PhaseFailed
			if c.Message == "" {
				c.Message = "in progress"
			}
			p.message = strings.TrimPrefix(p.message+"; "+c.App+": "+c.Message, "; ")
		}
		p.done = p.ended >= parts
		p.begun = p.begun || !c.Begun.IsZero() && out.underway && c.Seq == status.Queue[event].Seq
		out.on[c.Cluster.Name] = p
	}
	return out
}

// underway returns the phases of the event that a rollout waits for: first of the given revisions,
// then of the others.
func (v *view) underway(ctx context.Context, application string, known ...phases) phases {
	for _, p := range known {
		if p.underway {
			return p
		}
	}
	revisions, _, err := v.options.Rollouts.Revisions(ctx, application)
	if err != nil {
		return phases{}
	}
	for _, r := range revisions {
		if p := v.phases(ctx, application, r.Number); p.underway {
			return p
		}
	}
	return phases{}
}

// placement returns the status of an application on a cluster.
func (v *view) placement(cluster string, on *reached, to phases, s rollout.Status) status.Status {
	p := to.on[cluster]
	p.done = p.done || s.State == rollout.Deployed && s.Settled
	p.turn = to.rollout && !p.begun && !p.done && !p.failed
	out := on.status(p, v.now)
	if p.turn {
		out.Sync = status.OutOfSync
		out.Reason = strings.TrimSuffix("waits for its turn in the rollout; "+out.Reason, "; ")
	}
	switch c, why := v.agent(cluster); {
	case c == status.NeverJoined:
		return status.Status{Sync: status.OutOfSync, Health: status.Missing, Reason: why}
	case c == status.Silent:
		last := strings.TrimSuffix(fmt.Sprintf("%s; last reported: %s, %s", why, out.Health, out.Reason), ", ")
		return status.Status{Sync: status.SyncUnknown, Health: status.Unknown, Reason: last}
	case on.unreachable != "":
		return status.Status{Sync: status.SyncUnknown, Health: status.Unknown, Reason: on.unreachable}
	}
	return out
}

// status returns the status of an application on a cluster: a failure of the rollout, then failed
// objects, then the progress of the agent, then the worst health of the objects.
func (r *reached) status(p phase, now time.Time) status.Status {
	worst, name := status.Status{Sync: status.Synced, Health: status.Healthy}, ""
	for _, w := range r.works {
		for i := range w.Objects {
			if o := w.Objects[i].At(now); name == "" || o.Health.Rank() > worst.Health.Rank() {
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
	case p.failed:
		return failed(p.message)
	case bad:
		return worst
	case r.refused != "":
		return failed(r.refused)
	case r.applied() && r.leaving > 0:
		return progressing(cmp.Or(p.message, "its agent has not cleaned up yet"))
	case p.turn && name == "":
		return waits
	case !r.all() || name == "" && !p.done:
		return progressing(cmp.Or(p.message, "its agent has not applied it yet"))
	case r.busy:
		return progressing(cmp.Or(r.message, "the rollout continues there"))
	case r.left != "":
		waits.Reason = r.left
		return waits
	case r.degraded != "":
		return status.Status{Sync: status.Synced, Health: status.Degraded, Reason: r.degraded}
	}
	return worst
}
