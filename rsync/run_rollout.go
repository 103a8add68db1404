// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// rollout is the rollout of the event in progress. A nil rollout lets every cluster begin.
type rollout struct {
	*order
	kv      store.KeyValue
	verdict verdict
	halted  Reason // the reason why tasks that had not begun were ended
	timer   clock.Timer
	// expiring are clusters that have begun, in the order of their deadlines.
	expiring []*orderCluster
}

// ready returns whether apps wait until they are ready, and how long they must stay ready.
func (o *rollout) ready() (bool, time.Duration) {
	if o == nil {
		return false, 0
	}
	return o.record.Until != appcontext.OpStatusDeployed, o.record.MinSuccessTime
}

// gates reports whether a task waits until the rollout admits its cluster. A task without phases
// does not wait.
func (o *rollout) gates(t *task) bool { return o != nil && o.begun(t).IsZero() && len(t.phases) > 0 }

// begun returns when the cluster of a task began, or zero.
func (o *rollout) begun(t *task) time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.clusters[t.cluster].since
}

// over reports whether the event may end after all of its tasks have ended.
func (o *rollout) over() bool { return o == nil || o.verdict.passed || o.verdict.halt != "" }

func (o *rollout) stop() {
	if o != nil && o.timer != nil {
		o.timer.Stop()
	}
}

// arrange adds the tasks of the event, with their stored statuses, to their clusters. An earlier
// engine may have stored the begin of only some apps of a cluster. Then the begin of the others is
// stored now.
func (o *rollout) arrange(tasks []*task, stored map[taskKey]*ClusterStatus) {
	if o == nil {
		return
	}
	for _, t := range tasks {
		c := o.clusters[t.cluster]
		c.tasks = append(c.tasks, t)
		c.add(stored[t.taskKey])
	}
	for _, t := range tasks {
		s := stored[t.taskKey]
		t.dirty = t.end == "" && !o.begun(t).IsZero() && (s == nil || s.Begun.IsZero())
	}
	for _, g := range o.groups {
		for _, c := range g.clusters {
			if c.phase() == clusterInProgress {
				o.expiring = append(o.expiring, c)
			}
		}
	}
	slices.SortStableFunc(o.expiring, func(a, b *orderCluster) int { return a.since.Compare(b.since) })
}

// stored records the end of a task after the task was written. The end of a task is written once.
func (o *rollout) stored(t *task, at time.Time) {
	if o != nil && t.end != "" {
		o.clusters[t.cluster].end(t.end, !o.begun(t).IsZero(), at)
	}
}

// loadRollout reads the rollout of an event. broken is the reason why it cannot be used.
func (r *run) loadRollout(ctx context.Context, e *Element) (o *rollout, broken string, err error) {
	if !e.Rollout {
		return nil, "", nil
	}
	kv, record, err := get[rolloutRecord](ctx, r.engine, rolloutKey(r.id, e.Seq))
	switch {
	case errors.Is(err, ErrBroken), err == nil && !kv.Exists():
		return nil, (&brokenError{kv.Key}).Error(), nil
	case err != nil:
		return nil, "", err
	}
	return &rollout{order: newOrder(record, r.img.head.clusters()), kv: kv}, "", nil
}

// reloadRollout reads the changes of callers to the rollout of the event in progress.
func (r *run) reloadRollout(ctx context.Context) error {
	if r.work == nil || r.work.rollout == nil {
		return nil
	}
	next, broken, err := r.loadRollout(ctx, r.work.element)
	switch {
	case err != nil:
		return err
	case broken != "":
		return &brokenError{rolloutKey(r.id, r.work.element.Seq)}
	}
	r.work.rollout.record, r.work.rollout.kv = next.record, next.kv
	return nil
}

// admit begins the clusters that may begin. It stores their begin before any call, so an engine
// that continues after a crash never exceeds the limits.
func (r *run) admit(ctx context.Context) error {
	o := r.work.rollout
	if o == nil {
		return nil
	}
	if err := r.store(ctx, nil); err != nil {
		return err
	}
	now := r.engine.now()
	wake := r.expire(now)
	o.verdict = o.decide(now)
	if o.verdict.halt != o.halted {
		o.halted = o.verdict.halt
		r.halt()
	}
	for _, c := range o.verdict.begin {
		c.begin(now)
		o.expires(c)
		for _, t := range c.tasks {
			if t.end == "" {
				t.dirty = true
				r.work.enqueue(t)
			}
		}
		wake = earlier(wake, o.deadline(now))
	}
	wake = earlier(wake, o.verdict.until)
	o.stop()
	if !wake.IsZero() {
		o.timer = r.session.addAfter(r.id, max(wake.Sub(now), 0))
	}
	return r.store(ctx, []store.Compare{store.Unchanged(o.kv)})
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// deadline returns the time until which a cluster that began at a time must succeed. It is zero
// without a limit.
func (o *rollout) deadline(begun time.Time) time.Time {
	if o.record.ProgressDeadline == 0 {
		return time.Time{}
	}
	return begun.Add(o.record.ProgressDeadline)
}

// expires adds a cluster that has begun, in the order of begin times. The clock may have been set
// back since other clusters began.
func (o *rollout) expires(c *orderCluster) {
	at, _ := slices.BinarySearchFunc(o.expiring, c.since, func(other *orderCluster, since time.Time) int {
		return cmp.Or(other.since.Compare(since), -1)
	})
	o.expiring = slices.Insert(o.expiring, at, c)
}

// expire ends the waits of clusters after their deadlines. It returns the next deadline.
func (r *run) expire(now time.Time) (next time.Time) {
	o := r.work.rollout
	for len(o.expiring) > 0 && o.record.ProgressDeadline > 0 {
		c := o.expiring[0]
		if at := o.deadline(c.since); c.phase() == clusterInProgress && now.Before(at) {
			return at
		}
		o.expiring = o.expiring[1:]
		for _, t := range c.tasks {
			if t.end == "" && t.cut == "" {
				r.cutAlone(t, ReasonDeadline)
			}
		}
	}
	return time.Time{}
}

// cutAlone ends the waits of a task, but not those of the event.
func (r *run) cutAlone(t *task, reason Reason) {
	t.cut = reason
	r.cutTask(t, reason, !t.begun)
}

func (r *run) cutTask(t *task, reason Reason, hard bool) {
	r.work.enqueue(t)
	if t.op != nil && !r.img.detached.has(t.cluster) {
		t.op.cluster.cut(t.op, reason, hard)
	}
}

// halt ends tasks that have not begun. An abort also ends the waits of the other tasks.
func (r *run) halt() {
	o := r.work.rollout
	for _, t := range r.work.tasks {
		switch {
		case t.end != "":
		case o.gates(t):
			t.fail(o.verdict.halt, fmt.Sprintf("it has not begun: %s", o.verdict.waits))
			r.work.enqueue(t)
		case o.verdict.halt == ReasonAborted && t.cut == "":
			r.cutAlone(t, ReasonAborted)
		}
	}
}
