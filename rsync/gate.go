// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// gate is a condition that tasks wait for before they begin: the progress of other tasks, and then
// some time. Tasks on clusters without the other app share one gate, so an event takes time and
// memory in proportion to its tasks.
type gate struct {
	need   need
	wait   time.Duration
	left   int     // tasks that have not reached need yet
	failed *task   // a task that will never reach need
	open   bool    // the tasks do not wait for it any more
	by     []*task // the tasks that wait
	timer  clock.Timer
}

// need is the progress of a task that a gate requires.
type need int

const (
	needDeployed need = iota
	needReady
	needEnd
)

// dependent is a gate that waits for a task.
type dependent struct {
	gate *gate
	done bool
}

func (n need) satisfiedBy(t *task) bool {
	switch n {
	case needReady:
		return t.ready
	case needEnd:
		return t.end != ""
	default:
		return t.deployed
	}
}

type gates struct {
	all []*gate
	at  map[taskKey]*task
	of  map[string][]*task // by app
}

type taskKey struct {
	app     string
	cluster appcontext.ClusterID
}

func indexTasks(tasks []*task) *gates {
	g := &gates{at: make(map[taskKey]*task, len(tasks)), of: map[string][]*task{}}
	for _, t := range tasks {
		g.at[t.taskKey] = t
		g.of[t.app] = append(g.of[t.app], t)
	}
	return g
}

func (g *gates) add(n need, wait time.Duration, on, by []*task) {
	one := &gate{need: n, wait: wait, left: len(on), by: by}
	g.all = append(g.all, one)
	for _, t := range on {
		t.dependents = append(t.dependents, dependent{gate: one})
	}
	for _, t := range by {
		t.gates = append(t.gates, one)
	}
}

// pairs divides the tasks of an app by the tasks of another app. together has the tasks on clusters
// of both apps, each with the task of the other app. alone has the rest.
func (g *gates) pairs(app, other string) (together [][2]*task, alone []*task) {
	for _, t := range g.of[app] {
		if o := g.at[taskKey{other, t.cluster}]; o != nil {
			together = append(together, [2]*task{t, o})
		} else {
			alone = append(alone, t)
		}
	}
	return together, alone
}

// dependsOn makes the tasks of an app wait for the tasks of another app. Each waits for the task on
// its own cluster, or for all tasks of the other app if that cluster has none.
func (g *gates) dependsOn(app string, d *appcontext.Dependency) {
	n := needDeployed
	if d.Status == appcontext.OpStatusReady {
		n = needReady
	}
	together, alone := g.pairs(app, d.App)
	for _, pair := range together {
		g.add(n, d.Wait, pair[1:], pair[:1])
	}
	if len(alone) > 0 {
		g.add(n, d.Wait, g.of[d.App], alone)
	}
}

// outlives adds the reverse dependency for deletion: the tasks of the other app wait until the
// tasks of the app have ended.
func (g *gates) outlives(app string, d *appcontext.Dependency) {
	together, alone := g.pairs(app, d.App)
	for _, pair := range together {
		g.add(needEnd, 0, pair[:1], pair[1:])
	}
	if len(alone) > 0 {
		g.add(needEnd, 0, alone, g.of[d.App])
	}
}

// enqueue queues a task for the next advance. If its status has changed, the status is written.
func (w *work) enqueue(t *task) {
	w.list(t)
	if !t.queued {
		t.queued = true
		w.queued = append(w.queued, t)
	}
}

func (w *work) list(t *task) {
	if t.dirty && !t.listed {
		t.listed = true
		w.dirty = append(w.dirty, t)
	}
}

func (r *run) startWork(w *work) {
	w.open = len(w.tasks)
	for _, t := range w.tasks {
		w.enqueue(t)
	}
	for _, g := range w.gates {
		r.tryOpen(w, g)
	}
	r.work = w
}

// process begins the next phase of a task, if it can begin, and updates the gates that wait for the
// task. It reports whether the task ended.
func (r *run) process(t *task) (ended bool) {
	w := r.work
	t.queued = false
	if t.end == "" && t.op == nil {
		r.move(t)
		ended = t.end != ""
	}
	w.list(t)
	if t.end != "" && !t.ended {
		t.ended = true
		w.open--
	}
	for i := range t.dependents {
		d := &t.dependents[i]
		g := d.gate
		switch {
		case d.done:
		case t.end == PhaseFailed && g.need != needEnd:
			d.done = true
			if g.failed == nil {
				g.failed = t
				w.wake(g)
			}
		case g.need.satisfiedBy(t):
			d.done = true
			g.left--
			r.tryOpen(w, g)
		}
	}
	return ended
}

// tryOpen opens a gate if all tasks have reached its need, at once or after its wait.
func (r *run) tryOpen(w *work, g *gate) {
	switch {
	case g.left > 0 || g.failed != nil:
	case g.wait > 0:
		g.timer = r.engine.options.Clock.AfterFunc(g.wait, func() { r.waited(g) })
	default:
		g.open = true
		w.wake(g)
	}
}

// waited runs when the wait of a gate is over. The next step of the run opens the gate.
func (r *run) waited(g *gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.abandoned {
		r.waitedFor = append(r.waitedFor, g)
		r.session.ready.Add(r.id)
	}
}

func (w *work) wake(g *gate) {
	for _, t := range g.by {
		if !t.begun && t.end == "" {
			w.enqueue(t)
		}
	}
}

// blocked reports whether a task must wait for other tasks. failed describes a failed task that it
// depends on.
func (r *run) blocked(t *task) (blocked bool, failed string) {
	if r.work.rollout.gates(t) {
		return true, ""
	}
	for _, g := range t.gates {
		if g.failed != nil {
			return true, fmt.Sprintf("%s on %s failed, on which it depends", g.failed.app, g.failed.cluster)
		}
		blocked = blocked || !g.open
	}
	return blocked, ""
}
