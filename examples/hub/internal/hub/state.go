// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// view is a copy of the state, from which statuses are computed.
type view struct {
	*Hub
	now          time.Time
	set          *document.Set
	documents    status.Documents
	applications map[string]application
	works        []workhealth.Work
	byName       map[string][]workhealth.Work // the works of each application, or of "" without one
	byCluster    map[string][]workhealth.Work
	reports      map[string]time.Time // the last report of each cluster
	strangers    map[string]string
	unclaimed    []status.Unclaimed
}

func (h *Hub) view() *view {
	v := &view{
		Hub: h, now: time.Now(), applications: map[string]application{}, works: h.options.Health.Works(),
		byName: map[string][]workhealth.Work{}, byCluster: map[string][]workhealth.Work{}, reports: h.options.LastReports(),
	}
	if h.options.Strangers != nil {
		v.strangers = h.options.Strangers()
	}
	h.mu.Lock()
	v.set = h.set
	for name, a := range h.applications {
		v.applications[name] = *a
	}
	v.documents = status.Documents{
		Origin: cmp.Or(h.options.Dir, "the HTTP API"), Accepted: h.taken, Refused: h.refused,
	}
	h.mu.Unlock()
	for _, w := range v.works {
		name := applicationOf(w.ManifestWork)
		v.byName[name] = append(v.byName[name], w)
		v.byCluster[w.Namespace] = append(v.byCluster[w.Namespace], w)
	}
	return v
}

// findUnclaimed sets unclaimed, and the notice about it.
func (v *view) findUnclaimed() {
	v.unclaimed = v.Hub.unclaimed(v.works)
	v.documents.Notice = notice(v.unclaimed)
}

// names returns the names of the documents of a kind, and of groups, in order.
func names[Group any](v *view, kind document.Kind, groups ...map[string]Group) (out []string) {
	for _, group := range groups {
		out = slices.AppendSeq(out, maps.Keys(group))
	}
	for _, d := range v.set.Documents(kind) {
		out = append(out, d.Name)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == "" })
}

func (v *view) clusters() []string {
	heard := map[string][]workhealth.Work{}
	for name := range v.reports {
		heard[name] = nil
	}
	for name := range v.strangers {
		heard[name] = nil
	}
	return names(v, document.ClusterKind, v.byCluster, heard)
}

// State returns the state of the hub: of all applications and clusters, without their details.
func (h *Hub) State(ctx context.Context) status.Hub {
	v := h.view()
	v.findUnclaimed()
	out := status.Hub{
		Links: []status.Link{}, Documents: v.documents, Applications: []status.Application{},
		Clusters: []status.Cluster{}, Unclaimed: v.unclaimed,
	}
	if h.options.Links != nil {
		out.Links = h.options.Links(ctx)
	}
	on := map[string]status.Counts{}
	for _, name := range names(v, document.ApplicationKind, v.byName) {
		a := v.application(ctx, name)
		for i := range a.Placements {
			p := &a.Placements[i]
			if on[p.Cluster] == nil {
				on[p.Cluster] = status.Counts{}
			}
			on[p.Cluster][p.Health]++
		}
		a.Placements = nil
		out.Applications = append(out.Applications, a)
	}
	for _, name := range v.clusters() {
		c := v.cluster(name)
		if c.On = on[name]; c.On == nil {
			c.On = status.Counts{}
		}
		out.Clusters = append(out.Clusters, c)
	}
	return out
}

// Application returns an application of [Hub.State] with its details, and whether it exists.
func (h *Hub) Application(ctx context.Context, name string) (status.Application, bool) {
	v := h.view()
	if name == "" || len(v.byName[name]) == 0 && v.set.Document(document.ApplicationKind, name) == nil {
		return status.Application{}, false
	}
	a := v.application(ctx, name)
	a.Revisions, _ = h.revisions(ctx, name)
	return a, true
}

// Cluster returns a cluster of [Hub.State] with its details, and whether it exists.
func (h *Hub) Cluster(ctx context.Context, name string) (status.Cluster, bool) {
	v := h.view()
	if !slices.Contains(v.clusters(), name) {
		return status.Cluster{}, false
	}
	v.findUnclaimed()
	c := v.cluster(name)
	c.On = status.Counts{}
	for _, w := range v.byCluster[name] {
		c.Works = append(c.Works, v.work(w))
	}
	slices.SortFunc(c.Works, func(a, b status.Work) int { return strings.Compare(a.Name, b.Name) })
	for _, application := range names(v, document.ApplicationKind, v.byName) {
		placed := func(c *document.Cluster) bool { return c.Metadata.Name == name }
		left := func(w status.Work) bool { return w.Application == application }
		if !slices.ContainsFunc(v.set.On(application), placed) && !slices.ContainsFunc(c.Works, left) {
			continue
		}
		for _, p := range v.application(ctx, application).Placements {
			if p.Cluster == name {
				c.Placements = append(c.Placements, p)
				c.On[p.Health]++
			}
		}
	}
	return c, true
}

// applicationOf returns the application of a work, or "".
func applicationOf(w *workv1.ManifestWork) string {
	name, _, _ := revisions.ParseContextID(w.Annotations[manifestwork.AnnotationAppContext])
	return name
}

func (v *view) work(w workhealth.Work) status.Work {
	out := status.Work{
		Cluster: w.Namespace, Name: w.Name, Application: applicationOf(w.ManifestWork), Conditions: w.Status.Conditions,
		Objects: []status.Object{},
	}
	for i := range w.Objects {
		o := &w.Objects[i]
		out.Objects = append(out.Objects, status.Object{
			Kind: o.Object.Kind, Namespace: o.Object.Namespace, Name: o.Object.Name,
			Status: o.At(v.now, workhealth.ProgressDeadline),
		})
	}
	return out
}

// silence is the number of beats without a message after which an agent is silent: the agent or its
// connection is down.
const silence = 3

// agent returns the connection of the agent of a cluster, and why it is down. An agent without works
// has nothing to send, and is not silent; neither is any agent until the hub has run for that time.
func (v *view) agent(cluster string) (c status.Connection, why string) {
	works, last, joined, undelivered := v.byCluster[cluster], v.reports[cluster], false, false
	for i := range works {
		joined = joined || works[i].Joined()
		undelivered = undelivered || meta.IsStatusConditionFalse(works[i].Status.Conditions, work.ConditionDelivered)
	}
	switch stranger := v.strangers[cluster]; {
	case v.options.Revoked != nil && v.options.Revoked(cluster):
		return status.Revoked, fmt.Sprintf("its certificates are revoked: to admit it again, run hub token create "+
			"--cluster %s here, and agent join on the cluster", cluster)
	case !joined && stranger != "":
		return status.NeverJoined, fmt.Sprintf("its agent asks for the source %q, and this hub is %q: start the agent with "+
			"--source %[2]s", stranger, v.options.Source)
	case !joined && last.IsZero():
		return status.NeverJoined, "no agent of the cluster has ever connected"
	case !joined && undelivered: // agents list their works to all sources, also those that they do not serve
		return status.NeverJoined, "its agent has connected, but has never confirmed a work: check that it is started with " +
			"--source " + v.options.Source
	case len(works) > 0 && min(v.now.Sub(last), v.now.Sub(v.began)) > silence*v.options.Beat:
		if last.IsZero() {
			return status.Silent, "no message from its agent since the hub started at " + stamp(v.began)
		}
		return status.Silent, "no message from its agent since " + stamp(last)
	}
	return status.Connected, ""
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

// cluster returns the status of a cluster, which does not depend on the health of its applications.
func (v *view) cluster(name string) status.Cluster {
	works := v.byCluster[name]
	out := status.Cluster{Name: name, LastHeard: v.reports[name].Truncate(time.Minute).UTC()} // changes once a minute
	c := document.Get[*document.Cluster](v.set, document.ClusterKind, name)
	if c != nil {
		out.Labels = c.Metadata.Labels
	}
	out.Undocumented = c == nil && !v.documents.Accepted.IsZero()
	var why string
	out.Agent, why = v.agent(name)
	r := reachedBy(works)
	out.Status = clusterStatus(works, r)
	lost := 0
	for _, u := range v.unclaimed {
		if u.Cluster == name {
			lost++
		}
	}
	if out.Agent == status.NeverJoined && len(works) == 0 {
		out.Sync = status.SyncUnknown
	}
	set := func(health status.Health, reason string) { out.Health, out.Reason = health, reason }
	switch {
	case out.Undocumented && lost > 0:
		set(status.Unknown, "the cluster has no document, and no application has the objects of "+countWorks(lost))
	case out.Undocumented && len(works) == 0 && why != "":
		set(status.Unknown, "no document names the cluster, and "+why)
	case out.Undocumented && len(works) == 0:
		set(status.Unknown, "no document names the cluster, but its agent has connected: add a Cluster document, or stop "+
			"the agent")
	case out.Agent == status.NeverJoined:
		set(status.Missing, why)
	case out.Agent == status.Silent || out.Agent == status.Revoked:
		out.Sync = status.SyncUnknown
		set(status.Unknown, strings.TrimSuffix(why+"; last reported: "+out.Reason, "; last reported: "))
	case r.unreachable != "":
		out.Sync = status.SyncUnknown
		set(status.Degraded, r.unreachable)
	case out.Undocumented:
		set(status.Progressing, "the cluster has no document any more: its agent has "+countWorks(len(works))+" to clean up")
	}
	return out
}

// clusterStatus returns the status of a cluster with a connected agent.
func clusterStatus(works []workhealth.Work, r *reached) status.Status {
	out := status.Status{Sync: status.OutOfSync, Health: status.Healthy}
	switch {
	case r.refused != "":
		out.Reason = "its agent could not apply all works: see its applications"
	case r.waiting > 0:
		out.Reason = fmt.Sprintf("its agent has not applied %d of %s yet", r.waiting, countWorks(len(works)))
	case r.leaving > 0:
		out.Reason = "its agent has " + countWorks(r.leaving) + " to clean up"
	case len(works) == 0:
		return status.Status{Sync: status.Synced, Health: status.Healthy, Reason: "no application is on the cluster"}
	default:
		out.Sync = status.Synced
	}
	return out
}
