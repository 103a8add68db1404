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

// verb is an operation on the resources of an app on a cluster.
type verb string

const (
	applyVerb  verb = "apply"
	deleteVerb verb = "delete"
	readVerb   verb = "read"
	readyVerb  verb = "ready" // wait until they are ready
	goneVerb   verb = "gone"  // wait until they are gone
)

// phase is a step of an app on a cluster. It ends before the next phase begins.
type phase struct {
	verb      verb
	resources []appcontext.Resource
	// deployed and ready are the progress of the app after the phase, for apps that depend on it.
	deployed, ready bool
	// hold is the time for which the resources must stay ready.
	hold time.Duration
	// succeeded are hooks of earlier phases that are also deleted if one of the resources fails.
	succeeded []appcontext.Resource
}

// task is an app on a cluster in one event.
type task struct {
	taskKey
	phases     []phase
	gates      []*gate     // the task waits for them
	dependents []dependent // they wait for the task

	at              int
	deployed, ready bool
	end             Phase // empty while in progress
	reason          Reason
	message         string
	failure         *failure // set while hooks are deleted after one of them has failed
	states          []connector.State
	omitted         int // states that did not fit

	event   EventType
	remnant *remnant // nil for the tasks of a user's context
	others  *others  // the records of other contexts; one for all tasks of the event
	absent  bool     // the context is absent until the cluster begins
	shared  bool     // share has succeeded
	left    map[appcontext.Object]holder
	deleted map[appcontext.Object]bool // hooks that calls have deleted by their policies

	begun  bool
	cut    Reason // set when it must not wait any longer
	op     *op
	notes  notes
	dirty  bool // its status must be written
	listed bool // in work.dirty
	queued bool // in work.queued
	ended  bool // no longer counted in work.open
}

// planner makes the tasks of an event from stored data only, so an engine can continue an event of
// another engine.
type planner struct {
	event   EventType
	context *appcontext.AppContext // its resources are handled
	other   *appcontext.AppContext // the other context of an update
	order   DeleteOrder
	changed appcontext.Comparer
	diff    *appcontext.Differences
	ends    map[appcontext.Identity]bool // for UpdateDelete: the delete hooks of the other context
	ended   bool                         // for UpdateDelete: the other context no longer holds objects
	whole   bool                         // Update applies everything
	ready   bool                         // each app waits until it is ready
	hold    time.Duration                // the time for which it must stay ready
	remnant *remnant                     // set for the Terminate of a remnant
	broken  string                       // the reason why there is no plan
	absent  map[taskKey]bool             // apps on clusters where the context is absent
	drifted map[taskKey][]int            // for Heal: the positions of the objects that it applies
	stays   map[taskKey]bool             // for UpdateDelete: the apps of the other context, by cluster
	gates   []*gate
}

// compare calls changed. It recovers from a panic and records it in broken. The panic value may
// contain parts of a manifest, so the message has only its type.
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
			key := taskKey{a.Name, c.ClusterID}
			t := &task{
				taskKey: key, phases: p.phases(a, c, awaited), event: p.event, others: records, remnant: p.remnant,
				absent: p.absent[key],
			}
			switch {
			case !t.absent:
			case p.event.removes():
				t.phases = nil
			case p.event.moves() && len(t.phases) == 0: // all objects that it would apply exist there
				t.absent = false
			}
			if p.event == Heal {
				t.cut = ReasonRefusedForNow // it never waits
				if len(p.drifted[key]) == 0 {
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
		return p.remove(c, all, p.remnant == nil) // a cleanup runs no hooks
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

func (p *planner) heal(c *appcontext.Cluster, places []int) []phase {
	var list []appcontext.Resource
	for _, i := range places {
		if i >= 0 && i < len(c.Resources) && isObserved(c.Resources[i]) {
			list = append(list, c.Resources[i])
		}
	}
	return []phase{{verb: applyVerb, resources: list}}
}

// kept reports whether the other context of an update also has an object, so it must not be
// touched.
func (p *planner) kept(id appcontext.Identity) bool {
	if p.event != UpdateDelete {
		return false
	}
	_, there := p.diff.Updated[id]
	return there
}

// endsOf returns the hooks of a context that run when an app is deleted.
func endsOf(c *appcontext.AppContext) map[appcontext.Identity]bool {
	out := map[appcontext.Identity]bool{}
	for i := range c.Apps {
		for j := range c.Apps[i].Clusters {
			cluster := &c.Apps[i].Clusters[j]
			for _, r := range append(withHook(cluster, appcontext.HookPreDelete),
				withHook(cluster, appcontext.HookPostDelete)...) {
				out[appcontext.Identity{Cluster: cluster.ClusterID, Object: r.Object}] = true
			}
		}
	}
	return out
}

func (p *planner) awaited(name string) bool {
	for _, a := range p.context.Apps {
		for _, d := range a.DependsOn {
			if d.App == name && d.Status == appcontext.OpStatusReady {
				return true
			}
		}
	}
	return false
}

// install returns the phases that apply the wanted resources of an app: definitions and hooks
// before and after the other resources. Hooks and definitions are awaited.
func (p *planner) install(c *appcontext.Cluster, wanted func(appcontext.Resource) bool, awaited bool) []phase {
	pick := func(hook appcontext.Hook) []appcontext.Resource {
		return filter(withHook(c, hook), wanted)
	}
	all := withHook(c, appcontext.HookNone)
	out := slices.Concat(hookPhases(pick(appcontext.HookCRDInstall)), hookPhases(pick(appcontext.HookPreInstall)),
		wavePhases(pick(appcontext.HookNone), all), hookPhases(pick(appcontext.HookPostInstall)))
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

// remove returns the phases that delete the wanted resources of an app. If the app leaves the
// cluster, its delete hooks run and are then deleted. Definitions that a hook installed stay, as in
// Helm: their deletion would delete all objects of their kinds, of every owner.
//
// If an update keeps the app, or all of its objects, on the cluster, its delete hooks do not run.
// They are deleted in any case, because an event that was stopped or failed may have left them.
// Only hooks that the other context also has are kept: it may be terminating now, and wait for
// them.
func (p *planner) remove(c *appcontext.Cluster, wanted func(appcontext.Resource) bool, leaves bool) []phase {
	var out []phase
	var objects []appcontext.Resource
	for _, hook := range []appcontext.Hook{appcontext.HookPreInstall, appcontext.HookNone, appcontext.HookPostInstall} {
		objects = append(objects, byWave(filter(withHook(c, hook), wanted))...)
	}
	run := leaves && (p.event != UpdateDelete || len(objects) > 0)
	var ends []appcontext.Resource
	hooks := func(hook appcontext.Hook) {
		list := slices.DeleteFunc(withHook(c, hook), func(r appcontext.Resource) bool {
			id := appcontext.Identity{Cluster: c.ClusterID, Object: r.Object}
			return p.kept(id) || (!run || p.ended) && p.ends[id]
		})
		if run {
			out = append(out, hookPhases(list)...)
			list = filter(list,
				func(r appcontext.Resource) bool { return !r.Has(appcontext.HookDeletePolicySucceeded) })
		}
		ends = append(ends, byWave(list)...)
	}
	drop := func(list []appcontext.Resource) {
		for _, step := range deleteSteps(list, p.order) {
			out = append(out, deletePhases(step)...)
		}
	}
	hooks(appcontext.HookPreDelete)
	drop(objects)
	hooks(appcontext.HookPostDelete)
	drop(ends)
	return out
}

// connect makes tasks wait for tasks of other apps: those that their app depends on, or, in a
// deletion, those that depend on their app.
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

// withHook returns the resources with a hook (HookNone for those without), in order.
func withHook(c *appcontext.Cluster, hook appcontext.Hook) []appcontext.Resource {
	return filter(c.Resources, func(r appcontext.Resource) bool { return r.Hook == hook })
}
