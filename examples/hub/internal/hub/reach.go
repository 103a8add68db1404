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

// What the engine has deployed is written for agents; this is about whether they have applied it.

// reached is how far the agent of a cluster is with an application.
type reached struct {
	waiting int  // works that the agent has not applied
	leaving int  // works that it is to clean up
	missing bool // an object is in no work yet
	// busy is whether the rollout waits for something there, such as a hook; message is for what, where that is known.
	busy    bool
	message string
	// refused and degraded are of the first work that is so, in the agent's words.
	refused, degraded string
}

// all reports whether the agent has applied all there is, and has cleaned up what there is not.
func (r reached) all() bool { return r.applied() && r.leaving == 0 }

func (r reached) applied() bool { return r.waiting == 0 && !r.missing }

// reachedBy says how far an agent is with some works.
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

// first returns the lesser of two messages, so that it is the same one each time.
func first(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}

// reach is how far each cluster is with an application.
type reach map[string]reached

// reachOf says how far clusters are with an application that has some works. What it is to have and is in no work yet counts once it is deployed.
func reachOf(a application, s rollout.Status, works []health.Work) reach {
	byCluster := map[string][]health.Work{}
	for _, w := range works {
		byCluster[w.Namespace] = append(byCluster[w.Namespace], w)
	}
	out := reach{}
	for cluster, works := range byCluster {
		r := reachedBy(works)
		if a.rendering != nil && !a.on[cluster] { // what is there is on its way out, object by object
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

// await notes what a rollout waits for, beside agents: the one to a revision that is so far, by the event under way.
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

// leftOn says, by cluster, which objects are there that the application is not to have. What is in works that are being deleted is not among them.
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
		out[cluster] = slices.Min(objects) + " is still there"
		if more := len(objects) - 1; more > 0 {
			out[cluster] += fmt.Sprintf(", and %d more", more)
		}
	}
	return out
}

// summary names the clusters that are waited for, and says what is wrong where something is.
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

// countWorks is a number of works, in words.
func countWorks(n int) string {
	if n == 1 {
		return "1 work"
	}
	return fmt.Sprintf("%d works", n)
}

// list names some, and counts the others.
func list(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// pause is between two looks of [Hub.Settled], so that thousands of statuses cost few of them.
const pause = 100 * time.Millisecond

// Settled returns when an application is what it is to be, and the agents of all its clusters have applied that, or there is no such application. Its error is
// that of ctx.
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
			continue // something newer has come
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

// application returns what is known of one, and its works.
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

// Application returns one of the applications of [Hub.State]. It reports whether there is one.
func (h *Hub) Application(name string) (page.Application, bool) {
	set := h.Documents()
	a, works := h.application(name)
	if name == "" || len(works) == 0 && set.Document(document.ApplicationKind, name) == nil {
		return page.Application{}, false
	}
	return h.applicationState(set, name, a, works), true
}
