// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/hub/internal/render"
	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// Deployed for the engine means written for agents. This file tracks whether they have applied it.

// reached is the progress of the agent of a cluster with an application.
type reached struct {
	placed  bool // the documents place the application on the cluster
	works   []workhealth.Work
	waiting int  // works that the agent has not applied
	leaving int  // works that it must clean up
	missing bool // an object is in no work yet
	// busy is whether the rollout waits for the cluster, for example for a hook; message is the
	// reason, if it is known.
	busy    bool
	message string
	// refused, degraded and unreachable are the messages of the first such work.
	refused, degraded, unreachable string
	left                           string // objects of another revision that are still there
	suspended                      bool   // the rollout waits for a person
	turn                           bool   // it waits for its turn in the rollout
}

// all reports whether the agent has applied all works, and has cleaned up the deleted ones.
func (r *reached) all() bool { return r.applied() && r.leaving == 0 }

func (r *reached) applied() bool { return r.waiting == 0 && !r.missing }

// reachedBy returns the progress of an agent with some works.
func reachedBy(works []workhealth.Work) *reached {
	r := &reached{works: works}
	for i := range works {
		r.unreachable = first(r.unreachable, works[i].Unreachable())
		if works[i].DeletionTimestamp != nil {
			r.leaving++
			continue
		}
		switch p, message := works[i].Progress(); p {
		case workhealth.ProgressCurrent:
		case workhealth.ProgressDegraded:
			r.degraded = first(r.degraded, message)
		case workhealth.ProgressRefused:
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
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// reach is the progress of each cluster with an application.
type reach map[string]*reached

// at returns the progress of a cluster.
func (r reach) at(cluster string) *reached {
	if r[cluster] == nil {
		r[cluster] = &reached{}
	}
	return r[cluster]
}

func byCluster(works []workhealth.Work) map[string][]workhealth.Work {
	out := map[string][]workhealth.Work{}
	for _, w := range works {
		out[w.Namespace] = append(out[w.Namespace], w)
	}
	return out
}

// reach returns the progress of clusters with an application. Objects that are in no work yet count
// as missing only when the application is deployed. Until then, objects that it must not have any
// more count as left.
func (h *Hub) reach(a application, s revisions.Status, works []workhealth.Work) reach {
	out := reach{}
	for cluster, works := range byCluster(works) {
		r := reachedBy(works)
		out[cluster] = r
		if a.rendering == nil {
			continue
		}
		if !a.rendering.On[cluster] { // its objects are being removed
			r.leaving, r.waiting = r.leaving+r.waiting, 0
		}
		if s.State == revisions.Rolling || s.State == revisions.Failed {
			r.left = left(a.rendering, works)
		}
	}
	if s.State != revisions.Deployed || !s.Settled || a.rendering == nil {
		return out
	}
	for id := range a.rendering.Resources {
		if a.rendering.Installs(id) && h.options.Health.Manifest(id.Cluster.Name, workhealth.Object(id.Object)) == "" {
			out.at(id.Cluster.Name).missing = true
		}
	}
	return out
}

func identityOf(w workhealth.Work, o workhealth.Object) appcontext.Identity {
	return appcontext.Identity{Cluster: document.ClusterID(w.Namespace), Object: appcontext.Object(o)}
}

// left returns which objects of works a rendering does not install, as text. Works that are being
// deleted are not included.
func left(rendering *render.Rendering, works []workhealth.Work) string {
	var objects []string
	for _, w := range works {
		_, revision, _ := revisions.ParseContextID(w.Annotations[manifestwork.AnnotationAppContext])
		for i := range w.Objects {
			if o := w.Objects[i].Object; w.DeletionTimestamp == nil && !rendering.Installs(identityOf(w, o)) {
				objects = append(objects, fmt.Sprintf("%s of revision %d", o, revision))
			}
		}
	}
	switch len(objects) {
	case 0:
		return ""
	case 1:
		return objects[0] + " still exists"
	}
	return fmt.Sprintf("%s still exists, and %d more", slices.Min(objects), len(objects)-1)
}

// await records why the rollout waits, besides agents. to is the progress of the wanted revision,
// and current of the event in progress.
func (r reach) await(a application, s revisions.Status, to, current revisions.Progress) {
	switch {
	case s.Revision == 0:
		for _, on := range r {
			on.busy = true
		}
	case to.InProgress && a.rendering != nil:
		for cluster := range a.rendering.On {
			if p := to.Clusters[document.ClusterID(cluster)]; !a.done(p) && !p.Failed && (p.Begun || !to.Rollout) {
				r.at(cluster).busy = true
			}
		}
	}
	for cluster, p := range current.Clusters {
		if p.Message != "" && !p.Failed {
			on := r.at(cluster.Name)
			on.busy, on.message = true, p.Message
		}
	}
}

// summary returns the clusters that the application waits for, and the first problem.
func (r reach) summary() (waiting, refused string) {
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
	return waiting, refused
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
		news := h.news.Next()
		if err := h.options.Rollouts.Settled(ctx, application); err != nil {
			return err
		}
		switch status, _ := h.options.Rollouts.Status(application); {
		case status.State != revisions.Deployed:
			return nil
		case !status.Settled:
			continue // there is a newer target
		default:
			v := h.view()
			works := v.byName[application]
			waiting, _ := h.reach(v.applications[application], status, works).summary()
			if waiting == "" && !slices.ContainsFunc(works, func(w workhealth.Work) bool { return w.Pending }) {
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
