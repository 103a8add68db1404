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

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/page"
	"github.com/spokewire/sdk-go/examples/hub/internal/rollout"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// Deployed for the engine means written for agents. This file tracks whether they have applied it.

// reached is the progress of the agent of a cluster with an application.
type reached struct {
	waiting int  // works that the agent has not applied
	leaving int  // works that it must clean up
	missing bool // an object is in no work yet
	// busy is whether the rollout waits for the cluster, for example for a hook; message is the
	// reason, if it is known.
	busy    bool
	message string
	// refused and degraded are the messages of the first such work.
	refused, degraded string
}

// all reports whether the agent has applied all works, and has cleaned up the deleted ones.
func (r reached) all() bool { return r.applied() && r.leaving == 0 }

func (r reached) applied() bool { return r.waiting == 0 && !r.missing }

// reachedBy returns the progress of an agent with some works.
func reachedBy(works []health.Work) (r reached) {
	for i := range works {
		if works[i].DeletionTimestamp != nil {
			r.leaving++
			continue
		}
		switch p, message := works[i].Progress(); p {
		case health.Current:
		case health.Degraded:
			r.degraded = first(r.degraded, message)
		case health.Refused:
			r.refused = first(r.refused, message)
			r.waiting++
		default:
			r.waiting++
		}
	}
	return r
}

// first returns the lesser of two messages, for a stable result.
func first(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}

// reach is the progress of each cluster with an application.
type reach map[string]reached

// reachOf returns the progress of clusters with an application that has these works. Objects that
// are in no work yet count as missing only when the application is deployed.
func reachOf(a application, s rollout.Status, works []health.Work) reach {
	byCluster := map[string][]health.Work{}
	for _, w := range works {
		byCluster[w.Namespace] = append(byCluster[w.Namespace], w)
	}
	out := reach{}
	for cluster, works := range byCluster {
		r := reachedBy(works)
		if a.rendering != nil && !a.on[cluster] { // its objects are being removed
			r.leaving, r.waiting = r.leaving+r.waiting, 0
		}
		out[cluster] = r
	}
	if s.State != rollout.Deployed || !s.Settled || a.rendering == nil {
		return out
	}
	held := map[string]map[appcontext.Object]bool{}
	for cluster, works := range byCluster {
		held[cluster] = map[appcontext.Object]bool{}
		for i := range works {
			for j := range works[i].Objects {
				held[cluster][works[i].Objects[j].Object] = true
			}
		}
	}
	for id := range a.rendering.Installed() {
		if name := id.Cluster.Name; !held[name][id.Object] {
			r := out[name]
			r.missing = true
			out[name] = r
		}
	}
	return out
}

// await records why the rollout waits, besides agents. to is the progress of the wanted revision,
// and underway of the event in progress.
func (r reach) await(a application, s rollout.Status, to, underway phases) {
	note := func(cluster, message string) {
		on := r[cluster]
		on.busy, on.message = true, cmp.Or(message, on.message)
		r[cluster] = on
	}
	switch {
	case s.Revision == 0:
		for cluster := range r {
			note(cluster, "")
		}
	case to.underway:
		for cluster := range a.on {
			if p := to.on[cluster]; !p.done && !p.failed && (p.begun || !to.rollout) {
				note(cluster, "")
			}
		}
	}
	for cluster, p := range underway.on {
		if p.message != "" && !p.failed {
			note(cluster, p.message)
		}
	}
}

// leftOn returns, by cluster, objects that the application must not have any more. Works that are
// being deleted are not included.
func leftOn(a application, works []health.Work) map[string]string {
	if a.rendering == nil {
		return nil
	}
	wanted := map[string]map[appcontext.Object]bool{}
	for id := range a.rendering.Installed() {
		if wanted[id.Cluster.Name] == nil {
			wanted[id.Cluster.Name] = map[appcontext.Object]bool{}
		}
		wanted[id.Cluster.Name][id.Object] = true
	}
	found := map[string][]string{}
	for _, w := range works {
		if w.DeletionTimestamp != nil {
			continue
		}
		for i := range w.Objects {
			if o := w.Objects[i].Object; !wanted[w.Namespace][o] {
				_, revision, _ := rollout.ParseContextID(w.Annotations[manifestwork.AnnotationAppContext])
				found[w.Namespace] = append(found[w.Namespace], fmt.Sprintf("%s of revision %d", o, revision))
			}
		}
	}
	out := map[string]string{}
	for cluster, objects := range found {
		out[cluster] = slices.Min(objects) + " still exists"
		if more := len(objects) - 1; more > 0 {
			out[cluster] += fmt.Sprintf(", and %d more", more)
		}
	}
	return out
}

// summary returns the clusters that the application waits for, and the first problems.
func (r reach) summary() (waiting, refused, degraded string) {
	var applying, leaving, busy []string
	message := ""
	for _, cluster := range slices.Sorted(maps.Keys(r)) {
		c := r[cluster]
		if !c.applied() {
			applying = append(applying, cluster)
		}
		if c.leaving > 0 {
			leaving = append(leaving, cluster)
		}
		if c.busy && c.all() {
			busy = append(busy, cluster)
			if message == "" && c.message != "" {
				message = cluster + ": " + c.message
			}
		}
		if c.refused != "" && refused == "" {
			refused = cluster + " could not apply " + c.refused
		}
		if c.degraded != "" && degraded == "" {
			degraded = cluster + ": " + c.degraded
		}
	}
	var waits []string
	if len(applying) > 0 {
		waits = append(waits, agentsOf(applying)+" to apply it")
	}
	if len(leaving) > 0 {
		waits = append(waits, agentsOf(leaving)+" to clean up")
	}
	switch {
	case len(busy) == 1 && message != "":
		waits = append(waits, message)
	case len(busy) > 0:
		waits = append(waits, strings.TrimSuffix(list(busy)+"; "+message, "; "))
	}
	if len(waits) > 0 {
		waiting = "waits for " + strings.Join(waits, ", and for ")
	}
	return waiting, refused, degraded
}

func agentsOf(clusters []string) string {
	if len(clusters) == 1 {
		return "the agent of " + clusters[0]
	}
	return "the agents of " + list(clusters)
}

// countWorks returns a number of works as text.
func countWorks(n int) string {
	if n == 1 {
		return "1 work"
	}
	return fmt.Sprintf("%d works", n)
}

// list returns the first names, and the number of the others.
func list(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// pause is the time between two checks of [Hub.Settled], which limits the checks for thousands of
// statuses.
const pause = 100 * time.Millisecond

// Settled returns when an application is deployed and the agents of all its clusters have applied
// it, or when there is no such application. The error is that of ctx.
func (h *Hub) Settled(ctx context.Context, application string) error {
	for {
		h.mu.Lock()
		news := h.news.Next()
		h.mu.Unlock()
		if err := h.options.Rollouts.Settled(ctx, application); err != nil {
			return err
		}
		switch status, _ := h.options.Rollouts.Status(application); {
		case status.State != rollout.Deployed:
			return nil
		case !status.Settled:
			continue // there is a newer target
		default:
			a, works := h.application(application)
			if waiting, _, _ := reachOf(a, status, works).summary(); waiting == "" {
				return nil
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := wait.Sleep(ctx, clock.RealClock{}, pause); err != nil {
			return err
		}
	}
}

// application returns the state of an application, and its works.
func (h *Hub) application(name string) (a application, works []health.Work) {
	h.mu.Lock()
	if known := h.applications[name]; known != nil {
		a = *known
	}
	h.mu.Unlock()
	for _, w := range h.options.Health.Works() {
		if applicationOf(w.ManifestWork) == name {
			works = append(works, w)
		}
	}
	return a, works
}

// Application returns an application of [Hub.State], and whether it exists.
func (h *Hub) Application(name string) (page.Application, bool) {
	set := h.Documents()
	a, works := h.application(name)
	if name == "" || len(works) == 0 && set.Document(document.ApplicationKind, name) == nil {
		return page.Application{}, false
	}
	return h.applicationState(set, name, a, works), true
}
