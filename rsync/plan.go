// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// verb is what is done with resources of an app on a cluster.
type verb string

const (
	applyVerb  verb = "apply"
	deleteVerb verb = "delete"
	readVerb   verb = "read"
	readyVerb  verb = "ready" // wait until they are ready
	goneVerb   verb = "gone"  // wait until they are gone
)

// phase is a step of an app on a cluster; one ends before the next begins.
type phase struct {
	verb      verb
	resources []appcontext.Resource
	// deployed and ready say how far the app is after it, for apps that depend on it.
	deployed, ready bool
	// hold is how long the resources must stay ready.
	hold time.Duration
	// succeeded are hooks of earlier phases that are deleted also if one of the resources fails.
	succeeded []appcontext.Resource
}

// task is an app on a cluster in one event.
type task struct {
	app        string
	cluster    appcontext.ClusterID
	phases     []phase
	gates      []*gate     // it waits for
	dependents []dependent // that wait for it

	at              int
	deployed, ready bool
	end             Phase // empty while it is under way
	reason          Reason
	message         string
	failure         *failure // set while hooks are deleted because one of them has failed
	states          []connector.State
	omitted         int // states that did not fit

	event   EventType
	remnant *remnant // nil for the tasks of a user's context
	others  *others  // the records of other contexts; one for all tasks of the event
	absent  bool     // the context is absent until the cluster begins
	shared  bool     // it is known what other contexts have of its objects
	left    map[appcontext.Object]holder
	deleted map[appcontext.Object]bool // hooks that calls have deleted by their policies

	begun  bool
	cut    Reason // set when it may not wait any more
	op     *op
	notes  notes
	dirty  bool // its status has to be written
	listed bool // it is in the list of those
	queued bool // in work.queued
	ended  bool // it is not counted any more
}

// planner makes the tasks of an event from what is stored, so that an engine can go on with those of another.
type planner struct {
	event   EventType
	context *appcontext.AppContext // that whose resources are handled
	other   *appcontext.AppContext // the other one of an update
	order   DeleteOrder
	changed appcontext.Comparer
	diff    *appcontext.Differences
	ends    map[appcontext.Identity]bool // for UpdateDelete: the hooks that the other context has for when its apps go
	ended   bool                         // for UpdateDelete: the other context holds nothing any more
	whole   bool                         // Update applies everything
	ready   bool                         // each app waits until it is ready
	hold    time.Duration                // and for how long it stays so
	remnant *remnant                     // set for the Terminate of a remnant
	broken  string                       // why there is no plan
	absent  map[taskKey]bool             // where the context is absent
	drifted map[taskKey][]int            // for Heal: the places of the objects that it applies
	stays   map[taskKey]bool             // for UpdateDelete: which apps the other context has on which clusters
	gates   []*gate
}

// compare is changed, and takes note of a panic, so that it does not end the process. What it panicked with may be content of a
// manifest, and is not told.
func (p *planner) compare(before, after *appcontext.Resource) (changed bool) {
	defer func() {
		if v := recover(); v != nil {
			p.broken = fmt.Sprintf("Options.Comparer panicked with a %T at %s", v, after.Object)
		}
	}()
	return p.changed(before, after)
}

func (p *planner) plan() []*task {
	switch p.event {
	case Update:
		p.diff = appcontext.Diff(p.other, p.context, p.compare)
	case UpdateDelete:
		p.ends = endsOf(p.other)
		if p.ended {
			p.other = &appcontext.AppContext{}
		}
		p.diff = appcontext.Diff(p.context, p.other, p.compare)
		p.stays = map[taskKey]bool{}
		for _, a := range p.other.Apps {
			for i := range a.Clusters {
				p.stays[taskKey{a.Name, a.Clusters[i].ClusterID}] = true
			}
		}
	}
	if p.broken != "" {
		return nil
	}
	var tasks []*task
	records := &others{}
	for i := range p.context.Apps {
		a := &p.context.Apps[i]
		awaited := p.awaited(a.Name)
		for j := range a.Clusters {
			c := &a.Clusters[j]
			t := &task{
				app: a.Name, cluster: c.ClusterID, phases: p.phases(a, c, awaited), event: p.event, others: records, remnant: p.remnant,
				absent: p.absent[taskKey{a.Name, c.ClusterID}],
			}
			switch {
			case !t.absent:
			case p.event.removes():
				t.phases = nil
			case p.event.moves() && len(t.phases) == 0: // it has all there that it would apply
				t.absent = false
			}
			if p.event == Heal {
				t.cut = ReasonRefusedForNow // it never waits
				if len(p.drifted[taskKey{a.Name, c.ClusterID}]) == 0 {
					continue
				}
			}
			tasks = append(tasks, t)
		}
	}
	p.connect(tasks)
	return tasks
}

func (p *planner) phases(a *appcontext.App, c *appcontext.Cluster, awaited bool) []phase {
	all := func(appcontext.Resource) bool { return true }
	switch p.event {
	case Instantiate:
		return p.install(c, all, awaited)
	case Update:
		return p.install(c, func(r appcontext.Resource) bool {
			return p.whole || p.diff.Needs(appcontext.Identity{Cluster: c.ClusterID, Object: r.Object})
		}, awaited)
	case Terminate:
		return p.remove(c, all, p.remnant == nil) // a cluster that comes back runs no hooks
	case UpdateDelete:
		return p.remove(c, func(r appcontext.Resource) bool {
			_, gone := p.diff.Gone[appcontext.Identity{Cluster: c.ClusterID, Object: r.Object}]
			return gone
		}, !p.stays[taskKey{a.Name, c.ClusterID}])
	case Heal:
		return p.heal(c, p.drifted[taskKey{a.Name, c.ClusterID}])
	default:
		return []phase{{verb: readVerb, resources: c.Resources}}
	}
}

// heal applies the drifted objects of an app on a cluster.
func (p *planner) heal(c *appcontext.Cluster, places []int) []phase {
	var list []appcontext.Resource
	for _, i := range places {
		if i >= 0 && i < len(c.Resources) && isObserved(&c.Resources[i]) {
			list = append(list, c.Resources[i])
		}
	}
	return []phase{{verb: applyVerb, resources: list}}
}

// kept reports whether an object is one of the other context of an update, which must not be touched.
func (p *planner) kept(c *appcontext.Cluster, r appcontext.Resource) bool {
	if p.event != UpdateDelete {
		return false
	}
	_, there := p.diff.Updated[appcontext.Identity{Cluster: c.ClusterID, Object: r.Object}]
	return there
}

// endsOf are the hooks of a context that run when an app goes.
func endsOf(c *appcontext.AppContext) map[appcontext.Identity]bool {
	out := map[appcontext.Identity]bool{}
	for i := range c.Apps {
		for j := range c.Apps[i].Clusters {
			cluster := &c.Apps[i].Clusters[j]
			for _, r := range append(cluster.Of(appcontext.PreDelete), cluster.Of(appcontext.PostDelete)...) {
				out[appcontext.Identity{Cluster: cluster.ClusterID, Object: r.Object}] = true
			}
		}
	}
	return out
}

// awaited reports whether some app waits until this one is ready.
func (p *planner) awaited(name string) bool {
	for _, a := range p.context.Apps {
		for _, d := range a.DependsOn {
			if d.App == name && d.Status == appcontext.Ready {
				return true
			}
		}
	}
	return false
}

// install applies what is wanted of an app: definitions and hooks before and after the rest, each awaited.
func (p *planner) install(c *appcontext.Cluster, wanted func(appcontext.Resource) bool, awaited bool) []phase {
	pick := func(hook appcontext.Hook) []appcontext.Resource {
		return slices.DeleteFunc(c.Of(hook), func(r appcontext.Resource) bool { return !wanted(r) })
	}
	all := c.Of(appcontext.NoHook)
	out := slices.Concat(hookPhases(pick(appcontext.CRDInstall)), hookPhases(pick(appcontext.PreInstall)),
		wavePhases(pick(appcontext.NoHook), all), hookPhases(pick(appcontext.PostInstall)))
	if n := len(out); n > 0 {
		out[n-1].deployed = true
	}
	if (awaited || p.ready) && len(all) > 0 {
		out = append(out, phase{verb: readyVerb, resources: all, ready: true})
	}
	if p.hold > 0 && len(all) > 0 {
		out = append(out, phase{verb: readyVerb, resources: all, hold: p.hold})
	}
	return out
}

// remove deletes what is wanted of an app. Where the app leaves the cluster its hooks run, and then go too. Definitions that a
// hook installed stay, as Helm leaves them: with them would go all objects of their kind, whoever made them.
//
// Where an update leaves the app, or all of its objects, on the cluster, its hooks do not run. But they may be there: of an event that was
// stopped, or failed, while it waited for them. What is stored does not tell for how long, so they are deleted whether they are or not, but
// for those that are hooks of the other context too: that may be terminated just now, and wait for them. They go with it.
func (p *planner) remove(c *appcontext.Cluster, wanted func(appcontext.Resource) bool, leaves bool) []phase {
	var out []phase
	var objects []appcontext.Resource
	for _, hook := range []appcontext.Hook{appcontext.PreInstall, appcontext.NoHook, appcontext.PostInstall} {
		objects = append(objects, byWave(filter(c.Of(hook), wanted))...)
	}
	run := leaves && (p.event != UpdateDelete || len(objects) > 0)
	var ends []appcontext.Resource
	hooks := func(hook appcontext.Hook) {
		list := slices.DeleteFunc(c.Of(hook), func(r appcontext.Resource) bool {
			return p.kept(c, r) || (!run || p.ended) && p.ends[appcontext.Identity{Cluster: c.ClusterID, Object: r.Object}]
		})
		if run {
			out = append(out, hookPhases(list)...)
			list = filter(list, func(r appcontext.Resource) bool { return !r.Has(appcontext.HookSucceeded) })
		}
		ends = append(ends, byWave(list)...)
	}
	drop := func(list []appcontext.Resource) {
		for _, step := range deleteSteps(list, p.order) {
			out = append(out, deletePhases(step)...)
		}
	}
	hooks(appcontext.PreDelete)
	drop(objects)
	hooks(appcontext.PostDelete)
	drop(ends)
	return out
}

// connect makes tasks wait for those of apps that they depend on, or that depend on them where they are deleted.
func (p *planner) connect(tasks []*task) {
	if !p.event.moves() {
		return
	}
	g := indexTasks(tasks)
	for i := range p.context.Apps {
		a := &p.context.Apps[i]
		for j := range a.DependsOn {
			if p.event.removes() {
				g.outlives(a.Name, &a.DependsOn[j])
			} else {
				g.dependsOn(a.Name, &a.DependsOn[j])
			}
		}
	}
	p.gates = g.all
}
