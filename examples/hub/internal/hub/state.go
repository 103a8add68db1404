// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// State implements [page.Hub].
func (h *Hub) State() page.State {
	h.mu.Lock()
	set, out := h.set, page.State{Input: page.Input{
		Origin: cmp.Or(h.options.Dir, "the HTTP API"), Taken: h.taken, Error: h.refused,
	}}
	applications := map[string]application{}
	for name, a := range h.applications {
		applications[name] = *a
	}
	h.mu.Unlock()
	works := h.options.Health.Works()
	out.Unclaimed = h.unclaimed(works)
	out.Input.Notice = notice(out.Unclaimed)
	unclaimed := map[string]int{} // works, by cluster
	for _, u := range out.Unclaimed {
		unclaimed[u.Cluster]++
	}
	names := map[string]bool{}
	byCluster, byApplication := map[string][]health.Work{}, map[string][]health.Work{}
	for _, w := range works {
		name := applicationOf(w.ManifestWork)
		names[name] = true
		byCluster[w.Namespace] = append(byCluster[w.Namespace], w)
		byApplication[name] = append(byApplication[name], w)
		out.Works = append(out.Works, workState(name, w))
	}
	for _, c := range document.All[*document.Cluster](set, document.ClusterKind) {
		out.Clusters = append(out.Clusters,
			h.clusterState(c.Metadata.Name, c.Metadata.Labels, byCluster[c.Metadata.Name], false))
	}
	for name, works := range byCluster {
		if set.Document(document.ClusterKind, name) == nil {
			c := h.clusterState(name, nil, works, true)
			if n := unclaimed[name]; n > 0 {
				c.Status = page.Status{Tone: page.Bad, Word: "Unclaimed", Reason: "the cluster has no document, and " +
					"no application has the objects of " + countWorks(n)}
			}
			out.Clusters = append(out.Clusters, c)
		}
	}
	for _, d := range set.Documents(document.ApplicationKind) {
		names[d.Name] = true
	}
	for name := range names {
		if name != "" {
			out.Applications = append(out.Applications,
				h.applicationState(set, name, applications[name], byApplication[name]))
		}
	}
	return out
}

// applicationOf returns the application of a work, or "".
func applicationOf(w *workv1.ManifestWork) string {
	name, _, _ := rollout.ParseContextID(w.Annotations[manifestwork.AnnotationAppContext])
	return name
}

func workState(application string, w health.Work) page.Work {
	out := page.Work{Cluster: w.Namespace, Name: w.Name, Application: application, Conditions: w.Status.Conditions}
	for _, v := range w.Objects {
		out.Objects = append(out.Objects, page.Object{
			Kind: v.Object.Kind, Namespace: v.Object.Namespace, Name: v.Object.Name,
			Health: page.Status{Tone: toneOf(v.Health), Word: string(v.Health), Reason: v.Message, Since: v.Since},
		})
	}
	return out
}

func toneOf(h health.Health) page.Tone {
	switch h {
	case health.Healthy, health.Applied:
		return page.Good
	case health.Unhealthy, health.NotApplied:
		return page.Bad
	}
	return page.Busy
}

func (h *Hub) clusterState(name string, labels map[string]string, works []health.Work, leaving bool) page.Cluster {
	out := page.Cluster{Name: name, Labels: labels, Status: clusterStatus(works, leaving), LastReport: h.lastReport(name)}
	if len(works) > 0 && h.silent(name) {
		out.Status = page.Status{Tone: page.Bad, Word: "Silent", Reason: strings.TrimSuffix(
			fmt.Sprintf("no message from its agent for %s; last reported: %s: %s", silence*h.options.Beat,
				out.Status.Word, out.Status.Reason), ": ")}
	}
	return out
}

func clusterStatus(works []health.Work, leaving bool) page.Status {
	r := reachedBy(works)
	switch {
	case leaving:
		return page.Status{Tone: page.Busy, Word: "Leaving", Reason: "its agent has " + countWorks(len(works)) +
			" to clean up"}
	case len(works) == 0:
		return page.Status{Word: "Empty", Reason: "no application is placed on the cluster"}
	case r.refused != "":
		return page.Status{Tone: page.Bad, Word: "Failed", Reason: "its agent could not apply " + r.refused}
	case r.waiting > 0:
		return page.Status{Tone: page.Busy, Word: "Waiting", Reason: fmt.Sprintf("its agent has not applied "+
			"%d of %s yet", r.waiting, countWorks(len(works)))}
	case r.leaving > 0:
		return page.Status{Tone: page.Busy, Word: "Waiting", Reason: "its agent has " + countWorks(r.leaving) +
			" to clean up"}
	}
	return page.Status{Tone: page.Good, Word: "Current"}
}

func (h *Hub) applicationState(set *document.Set, name string, a application, works []health.Work) page.Application {
	status, _ := h.options.Rollouts.Status(name)
	parts := 0
	if d := document.Get[*document.Application](set, document.ApplicationKind, name); d != nil {
		parts = len(d.Spec.Parts)
	}
	phases, was := h.phases(name, status.Revision, parts), h.phases(name, status.From, parts)
	r := reachOf(a, status, works)
	var left map[string]string
	shown := h.rolloutState(phases)
	if status.State == rollout.Rolling {
		if shown != nil {
			status.Message = shown.Waiting
		}
		r.await(a, status, phases, h.underway(name, parts, phases, was))
	}
	if status.State == rollout.Rolling || status.State == rollout.Failed {
		left = leftOn(a, works)
	}
	documented := set.Document(document.ApplicationKind, name) != nil
	out := page.Application{Name: name, Rollout: shown, Status: applicationStatus(a, status, r, documented)}
	if status.Revision != 0 {
		out.Revision = strconv.Itoa(status.Revision)
	}
	clusters := map[string][]health.Work{}
	for _, c := range set.On(name) {
		clusters[c.Metadata.Name] = nil
	}
	for _, w := range works {
		clusters[w.Namespace] = append(clusters[w.Namespace], w)
	}
	for cluster, works := range clusters {
		p := page.Placement{
			Cluster: cluster, Status: placementStatus(works, phases.on[cluster], r[cluster], left[cluster]),
		}
		if on := phases.on[cluster]; phases.rollout && !on.begun && !on.done && !on.failed {
			p.Status = page.Status{
				Tone: page.Busy, Word: string(rollout.Rolling), Reason: "waits for its turn in the rollout",
			}
		}
		if p.Status.Word == string(rollout.Rolling) && status.Revision == 0 {
			p.Status.Word = "Leaving"
		}
		if len(works) > 0 && h.silent(cluster) {
			p.Status.Reason = strings.TrimSuffix("last report, its agent is silent: "+p.Status.Reason, ": ")
			if p.Status.Tone == page.Good {
				p.Status.Tone = page.Unknown
			}
		}
		if _, there := was.on[cluster]; there && slices.ContainsFunc(works, wasApplied) {
			p.Revision = strconv.Itoa(status.From)
		}
		if (phases.on[cluster].done || status.State == rollout.Deployed) && r[cluster].all() {
			p.Revision = out.Revision
		}
		out.Placements = append(out.Placements, p)
	}
	slices.SortFunc(out.Placements, func(a, b page.Placement) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// rolloutState returns the progress of the rollout to a revision, or nil.
func (h *Hub) rolloutState(p phases) *page.Rollout {
	if p.last == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	status, err := h.options.Engine.RolloutStatus(ctx, *p.last)
	if err != nil {
		return nil // as in phases
	}
	out := &page.Rollout{
		Status: string(status.Status), Waiting: status.Waiting, Paused: status.Paused, Aborted: status.Aborted,
	}
	for _, g := range status.Groups {
		out.Groups = append(out.Groups, page.RolloutGroup(g))
	}
	return out
}

// wasApplied reports whether the agent has reported any generation of a work as applied.
func wasApplied(w health.Work) bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
}

// applicationStatus returns the status of an application, with its hold.
func applicationStatus(a application, s rollout.Status, r reach, documented bool) page.Status {
	out := progress(a, s, r, documented)
	if a.held == 0 {
		return out
	}
	held := fmt.Sprintf("held at revision %d until its document changes", a.held)
	if out.Word == string(rollout.Deployed) {
		out.Word = "Rolled back"
	}
	out.Reason = strings.TrimPrefix(out.Reason+"; "+held, "; ")
	return out
}

func progress(a application, s rollout.Status, r reach, documented bool) page.Status {
	deployed := s.State == rollout.Deployed
	waiting, refused, degraded := r.summary()
	switch {
	case a.problem != "":
		return page.Status{Tone: page.Bad, Word: "Held up", Reason: a.problem, Since: a.since}
	case s.State == rollout.Failed:
		return page.Status{Tone: page.Bad, Word: string(s.State), Reason: s.Message, Since: s.Since}
	case refused != "" && s.Revision != 0:
		return page.Status{Tone: page.Bad, Word: string(rollout.Failed), Reason: refused}
	case deployed && (waiting != "" || !s.Settled):
		return page.Status{Tone: page.Busy, Word: string(rollout.Rolling), Reason: waiting, Since: s.Since}
	case deployed && degraded != "":
		return page.Status{Tone: page.Bad, Word: "Degraded", Reason: degraded}
	case deployed:
		return page.Status{Tone: page.Good, Word: string(s.State), Since: s.Since}
	case s.State == rollout.Rolling && s.Revision == 0:
		return page.Status{Tone: page.Busy, Word: "Leaving", Reason: waiting, Since: s.Since}
	case s.State == rollout.Unplaced:
		return page.Status{Word: string(s.State), Reason: "no placement selects a cluster for it"}
	case s.State == "" && !documented:
		return page.Status{Tone: page.Bad, Word: "Unclaimed", Reason: "the application has no document, but works"}
	case s.State == "":
		return page.Status{Tone: page.Busy, Word: string(rollout.Pending)}
	}
	return page.Status{Tone: page.Busy, Word: string(s.State), Reason: cmp.Or(s.Message, waiting), Since: s.Since}
}

// phase is the progress of all parts of an application on a cluster.
type phase struct {
	ended        int // parts that are done
	done, failed bool
	begun        bool   // its turn in the rollout has started
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

// phases returns the progress of a revision with some parts.
func (h *Hub) phases(application string, revision, parts int) phases {
	out := phases{on: map[string]phase{}}
	if revision == 0 {
		return out
	}
	// The store is local, and an error only hides progress.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	status, err := h.options.Engine.Status(ctx, rollout.ContextID(application, revision))
	if err != nil {
		return out
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
func (h *Hub) underway(application string, parts int, known ...phases) phases {
	for _, p := range known {
		if p.underway {
			return p
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	revisions, _, err := h.options.Rollouts.Revisions(ctx, application)
	if err != nil {
		return phases{}
	}
	for _, r := range revisions {
		if p := h.phases(application, r.Number, parts); p.underway {
			return p
		}
	}
	return phases{}
}

// placementStatus returns the status of an application on a cluster: a failure of the rollout, then
// the progress of the agent, then the worst health of its objects. left is an object of another
// revision that is still there.
func placementStatus(works []health.Work, p phase, r reached, left string) page.Status {
	var worst *health.Verdict
	for _, w := range works {
		for i := range w.Objects {
			if v := &w.Objects[i]; worst == nil || rank(v.Health) > rank(worst.Health) {
				worst = v
			}
		}
	}
	switch {
	case p.failed:
		return page.Status{Tone: page.Bad, Word: "Failed", Reason: p.message}
	case worst != nil && toneOf(worst.Health) == page.Bad:
		return page.Status{Tone: page.Bad, Word: string(worst.Health),
			Reason: strings.TrimSuffix(worst.Object.String()+": "+worst.Message, ": "), Since: worst.Since}
	case r.refused != "":
		return page.Status{Tone: page.Bad, Word: string(health.NotApplied), Reason: r.refused}
	case r.applied() && r.leaving > 0:
		return page.Status{
			Tone: page.Busy, Word: "Leaving", Reason: cmp.Or(p.message, "its agent has not cleaned up yet"),
		}
	case !r.all() || worst == nil && !p.done:
		return page.Status{
			Tone: page.Busy, Word: "Rolling", Reason: cmp.Or(p.message, "its agent has not applied it yet"),
		}
	case r.busy:
		return page.Status{Tone: page.Busy, Word: "Rolling", Reason: cmp.Or(r.message, "the rollout continues there")}
	case left != "":
		return page.Status{Tone: page.Busy, Word: "Rolling", Reason: left}
	case r.degraded != "":
		return page.Status{Tone: page.Bad, Word: string(health.Degraded), Reason: r.degraded}
	case worst == nil:
		return page.Status{Word: "Empty"}
	}
	return page.Status{
		Tone: toneOf(worst.Health), Word: string(worst.Health), Reason: worst.Message, Since: worst.Since,
	}
}

func rank(h health.Health) int {
	return slices.Index([]health.Health{
		health.Applied, health.Healthy, health.Unknown, health.Unhealthy, health.NotApplied,
	}, h)
}
