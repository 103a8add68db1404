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

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// view is a copy of the state, from which statuses are computed.
type view struct {
	*Hub
	set          *document.Set
	applications map[string]application
	works        []health.Work
	byName       map[string][]health.Work // the works of each application, or of "" without one
	reports      map[string]time.Time     // the last report of each cluster
}

// view returns a copy of the state. It has only the works of an application, or all with "".
func (h *Hub) view(only string) view {
	v := view{
		Hub: h, applications: map[string]application{}, byName: map[string][]health.Work{},
		reports: h.options.LastReports(),
	}
	h.mu.Lock()
	v.set = h.set
	for name, a := range h.applications {
		v.applications[name] = *a
	}
	h.mu.Unlock()
	for _, w := range h.options.Health.Works() {
		if name := applicationOf(w.ManifestWork); only == "" || name == only {
			v.works = append(v.works, w)
			v.byName[name] = append(v.byName[name], w)
		}
	}
	return v
}

// names returns the names of the documents of a kind, and of groups of works, in order.
func (v *view) names(kind document.Kind, groups map[string][]health.Work) []string {
	out := slices.Collect(maps.Keys(groups))
	for _, d := range v.set.Documents(kind) {
		out = append(out, d.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// State implements [page.Hub].
func (h *Hub) State() page.State {
	v := h.view("")
	out := page.State{Clusters: []page.Cluster{}, Applications: []page.Application{}, Unclaimed: h.unclaimed(v.works)}
	h.mu.Lock()
	out.Input = page.Input{
		Origin: cmp.Or(h.options.Dir, "the HTTP API"), Taken: h.taken, Error: h.refused, Notice: notice(out.Unclaimed),
	}
	h.mu.Unlock()
	for _, w := range v.works {
		out.Works = append(out.Works, workState(w))
	}
	works := byCluster(v.works)
	for _, name := range v.names(document.ClusterKind, works) {
		out.Clusters = append(out.Clusters, v.cluster(name, works[name], out.Unclaimed))
	}
	for _, name := range v.names(document.ApplicationKind, v.byName) {
		if name != "" {
			out.Applications = append(out.Applications, v.application(context.Background(), name))
		}
	}
	return out
}

// Application returns an application of [Hub.State], and whether it exists.
func (h *Hub) Application(ctx context.Context, name string) (page.Application, bool) {
	v := h.view(name)
	if name == "" || len(v.works) == 0 && v.set.Document(document.ApplicationKind, name) == nil {
		return page.Application{}, false
	}
	return v.application(ctx, name), true
}

// applicationOf returns the application of a work, or "".
func applicationOf(w *workv1.ManifestWork) string {
	name, _, _ := rollout.ParseContextID(w.Annotations[manifestwork.AnnotationAppContext])
	return name
}

func workState(w health.Work) page.Work {
	out := page.Work{
		Cluster: w.Namespace, Name: w.Name, Application: applicationOf(w.ManifestWork), Conditions: w.Status.Conditions,
	}
	for _, v := range w.Objects {
		out.Objects = append(out.Objects, page.Object{
			Kind: v.Object.Kind, Namespace: v.Object.Namespace, Name: v.Object.Name,
			Health: statusOf(&v),
		})
	}
	return out
}

func busy[Word ~string](word Word, reason string) page.Status {
	return page.Status{Tone: page.Busy, Word: string(word), Reason: reason}
}

func bad[Word ~string](word Word, reason string) page.Status {
	return page.Status{Tone: page.Bad, Word: string(word), Reason: reason}
}

func statusOf(v *health.Verdict) page.Status {
	return page.Status{Tone: toneOf(v.Health), Word: string(v.Health), Reason: v.Message, Since: v.Since}
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

// cluster returns the status of a cluster with some works.
func (v *view) cluster(name string, works []health.Work, unclaimed []page.Unclaimed) page.Cluster {
	out := page.Cluster{Name: name, LastReport: v.reports[name].Truncate(time.Minute).UTC()} // few changes of the page
	c := document.Get[*document.Cluster](v.set, document.ClusterKind, name)
	if c != nil {
		out.Labels = c.Metadata.Labels
	}
	lost := 0
	for _, u := range unclaimed {
		if u.Cluster == name {
			lost++
		}
	}
	switch out.Status = clusterStatus(works, c == nil); {
	case c == nil && lost > 0:
		out.Status = bad("Unclaimed", "the cluster has no document, and no application has the objects of "+countWorks(lost))
	case len(works) > 0 && v.silent(name):
		out.Status = bad("Silent", strings.TrimSuffix(
			fmt.Sprintf("no message from its agent for %s; last reported: %s: %s", silence*v.options.Beat,
				out.Status.Word, out.Status.Reason), ": "))
	}
	return out
}

// silence is the number of beats without a message after which an agent is silent: the agent or its
// connection is down.
const silence = 3

// silent reports whether an agent with works is silent. An agent is not silent until the hub has
// run for that time.
func (v *view) silent(cluster string) bool {
	last := v.reports[cluster]
	if last.Before(v.began) {
		last = v.began
	}
	return time.Since(last) > silence*v.options.Beat
}

func clusterStatus(works []health.Work, leaving bool) page.Status {
	r := reachedBy(works)
	switch {
	case leaving:
		return busy("Leaving", "its agent has "+countWorks(len(works))+" to clean up")
	case len(works) == 0:
		return page.Status{Word: "Empty", Reason: "no application is placed on the cluster"}
	case r.refused != "":
		return bad("Failed", "its agent could not apply "+r.refused)
	case r.waiting > 0:
		return busy("Waiting", fmt.Sprintf("its agent has not applied %d of %s yet", r.waiting, countWorks(len(works))))
	case r.leaving > 0:
		return busy("Waiting", "its agent has "+countWorks(r.leaving)+" to clean up")
	}
	return page.Status{Tone: page.Good, Word: "Current"}
}

// application returns the status of an application.
func (v *view) application(ctx context.Context, name string) page.Application {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the store is local, and an error only hides progress
	defer cancel()
	status, _ := v.options.Rollouts.Status(name)
	to, from := v.phases(ctx, name, status.Revision), v.phases(ctx, name, status.From)
	a, s := v.applications[name], page.Application{
		Name: name, Rollout: v.rollout(ctx, to), Placements: []page.Placement{},
	}
	r := reachOf(a, status, v.byName[name])
	if status.State == rollout.Rolling {
		if s.Rollout != nil {
			status.Message = s.Rollout.Waiting
		}
		r.await(a, status, to, v.underway(ctx, name, to, from))
	}
	s.Status = applicationStatus(a, status, r, v.set.Document(document.ApplicationKind, name) != nil)
	if status.Revision != 0 {
		s.Revision = strconv.Itoa(status.Revision)
	}
	for _, c := range v.set.On(name) {
		r.at(c.Metadata.Name).placed = true
	}
	for _, cluster := range slices.Sorted(maps.Keys(r)) {
		on := r[cluster]
		if !on.placed && len(on.works) == 0 {
			continue
		}
		p := page.Placement{Cluster: cluster, Status: v.placementStatus(cluster, on, to, status)}
		if _, there := from.on[cluster]; there && slices.ContainsFunc(on.works, wasApplied) {
			p.Revision = strconv.Itoa(status.From)
		}
		if (to.on[cluster].done || status.State == rollout.Deployed) && on.all() {
			p.Revision = s.Revision
		}
		s.Placements = append(s.Placements, p)
	}
	return s
}

// rollout returns the progress of the rollout to a revision, or nil.
func (v *view) rollout(ctx context.Context, to phases) *page.Rollout {
	if to.last == nil {
		return nil
	}
	status, err := v.options.Engine.RolloutStatus(ctx, *to.last)
	if err != nil {
		return nil
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
		return bad(rollout.Failed, refused)
	case deployed && (waiting != "" || !s.Settled):
		return page.Status{Tone: page.Busy, Word: string(rollout.Rolling), Reason: waiting, Since: s.Since}
	case deployed && degraded != "":
		return bad(health.Degraded, degraded)
	case deployed:
		return page.Status{Tone: page.Good, Word: string(s.State), Since: s.Since}
	case s.State == rollout.Rolling && s.Revision == 0:
		return page.Status{Tone: page.Busy, Word: "Leaving", Reason: waiting, Since: s.Since}
	case s.State == rollout.Unplaced:
		return page.Status{Word: string(s.State), Reason: "no placement selects a cluster for it"}
	case s.State == "" && !documented:
		return bad("Unclaimed", "the application has no document, but works")
	case s.State == "":
		return busy(rollout.Pending, "")
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

// placementStatus returns the status of an application on a cluster.
func (v *view) placementStatus(cluster string, on *reached, to phases, s rollout.Status) page.Status {
	p := to.on[cluster]
	out := on.status(p)
	if to.rollout && !p.begun && !p.done && !p.failed {
		out = busy(rollout.Rolling, "waits for its turn in the rollout")
	}
	if out.Word == string(rollout.Rolling) && s.Revision == 0 {
		out.Word = "Leaving"
	}
	if len(on.works) > 0 && v.silent(cluster) {
		out.Reason = strings.TrimSuffix("last report, its agent is silent: "+out.Reason, ": ")
		if out.Tone == page.Good {
			out.Tone = page.Unknown
		}
	}
	return out
}

// status returns the status of a cluster: a failure of the rollout, then the progress of the agent,
// then the worst health of its objects.
func (r *reached) status(p phase) page.Status {
	var worst *health.Verdict
	for _, w := range r.works {
		for i := range w.Objects {
			if v := &w.Objects[i]; worst == nil || rank(v.Health) > rank(worst.Health) {
				worst = v
			}
		}
	}
	switch {
	case p.failed:
		return bad(rollout.Failed, p.message)
	case worst != nil && toneOf(worst.Health) == page.Bad:
		out := statusOf(worst)
		out.Reason = strings.TrimSuffix(worst.Object.String()+": "+out.Reason, ": ")
		return out
	case r.refused != "":
		return bad(health.NotApplied, r.refused)
	case r.applied() && r.leaving > 0:
		return busy("Leaving", cmp.Or(p.message, "its agent has not cleaned up yet"))
	case !r.all() || worst == nil && !p.done:
		return busy(rollout.Rolling, cmp.Or(p.message, "its agent has not applied it yet"))
	case r.busy:
		return busy(rollout.Rolling, cmp.Or(r.message, "the rollout continues there"))
	case r.left != "":
		return busy(rollout.Rolling, r.left)
	case r.degraded != "":
		return bad(health.Degraded, r.degraded)
	case worst == nil:
		return page.Status{Word: "Empty"}
	}
	return statusOf(worst)
}

func rank(h health.Health) int {
	return slices.Index([]health.Health{
		health.Applied, health.Healthy, health.Unknown, health.Unhealthy, health.NotApplied,
	}, h)
}

var (
	applicationsDesc = prometheus.NewDesc("spokewire_hub_applications",
		"Number of applications, by the state that the page shows.", []string{"state"}, nil)
	clustersDesc = prometheus.NewDesc("spokewire_hub_clusters",
		"Number of clusters, by the state that the page shows.", []string{"state"}, nil)
	refusedDesc = prometheus.NewDesc("spokewire_hub_documents_refused",
		"1 while documents of the folder are refused and the previous ones stay in effect, otherwise 0.", nil, nil)
	unclaimedDesc = prometheus.NewDesc("spokewire_hub_works_unclaimed",
		"Number of works with objects that no application has.", nil, nil)
	acceptedDesc = prometheus.NewDesc("spokewire_hub_documents_accepted_timestamp_seconds",
		"Time when documents were last accepted, in seconds since 1970; 0 if never.", nil, nil)
)

// Collector returns the metrics of a hub. They are computed when they are collected.
func (h *Hub) Collector() prometheus.Collector { return collector{h} }

type collector struct{ hub *Hub }

// Describe implements [prometheus.Collector].
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{applicationsDesc, clustersDesc, refusedDesc, unclaimedDesc, acceptedDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	state := c.hub.State()
	if state.Input.Taken.IsZero() && state.Input.Error == "" {
		return // a follower: the leader counts
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	applications, clusters := map[string]float64{}, map[string]float64{}
	for i := range state.Applications {
		applications[state.Applications[i].Status.Word]++
	}
	for i := range state.Clusters {
		clusters[state.Clusters[i].Status.Word]++
	}
	for word, n := range applications {
		gauge(applicationsDesc, n, word)
	}
	for word, n := range clusters {
		gauge(clustersDesc, n, word)
	}
	refused, accepted := 0.0, 0.0
	if state.Input.Error != "" {
		refused = 1
	}
	if !state.Input.Taken.IsZero() {
		accepted = float64(state.Input.Taken.UnixMilli()) / 1000
	}
	gauge(refusedDesc, refused)
	gauge(unclaimedDesc, float64(len(state.Unclaimed)))
	gauge(acceptedDesc, accepted)
}
