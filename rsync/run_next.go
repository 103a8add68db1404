// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/store"
)

// skipBatch limits the elements that one transaction skips, so it stays within the limits of all
// stores.
const skipBatch = 20

// next resumes the event in progress, or begins the next one. drained means that there is neither.
func (r *run) next(ctx context.Context) (drained bool, err error) {
	if r.img.record.Current != 0 {
		return false, r.resume(ctx)
	}
	pending := r.img.pending()
	if len(pending) == 0 {
		return true, r.drain(ctx)
	}
	if stop, stopped, err := r.stopped(ctx); err != nil || stopped {
		if err == nil {
			err = r.skip(ctx, pending, ReasonStopped, store.Unchanged(stop))
		}
		return false, err
	}
	if _, valid := r.engine.options.Transitions.Of(Terminate, r.img.record.State); valid {
		for i := len(pending) - 1; i > 0; i-- {
			if pending[i].Event == Terminate {
				return false, r.skip(ctx, pending[:i], ReasonPreempted)
			}
		}
	}
	return false, r.begin(ctx, pending[0])
}

// drain deletes the active record, on the condition that the queue is still empty.
func (r *run) drain(ctx context.Context) error {
	if r.img.record.Owner == "" {
		// The active record was deleted with the owner. An existing record was put by another
		// writer.
		if kv, err := r.engine.store.Get(ctx, activeKey(r.id)); err != nil || !kv.Exists() {
			return err
		}
	}
	return r.commitBetween(ctx, transaction{})
}

// commitBetween commits between two events, and releases the context if possible.
func (r *run) commitBetween(ctx context.Context, t transaction) error {
	next := r.nextRecord()
	t.add(r.releaseOps(next))
	return r.commit(ctx, next, t)
}

// stopped reports whether the context is stopped. It confirms the watched value with a read: stops
// and active contexts have separate watches, and either may lag.
func (r *run) stopped(ctx context.Context) (store.KeyValue, bool, error) {
	if !r.session.isStopped(r.id) {
		return store.KeyValue{}, false, nil
	}
	kv, err := r.engine.store.Get(ctx, stopKey(r.id))
	if err == nil && !kv.Exists() {
		r.session.note(r.session.stopped, change{name: r.id})
	}
	return kv, kv.Exists(), err
}

func (r *run) skip(ctx context.Context, elements []*Element, reason Reason, condition ...store.Compare) error {
	var ops []store.Op
	for _, e := range elements[:min(len(elements), skipBatch)] {
		e.Status, e.Reason = Skip, reason
		ops = append(ops, r.elementOps(e)...)
	}
	return r.commitBetween(ctx, transaction{condition, ops})
}

// refuse ends an event that cannot begin. The state does not change.
func (r *run) refuse(ctx context.Context, e *Element, reason Reason, format string, args ...any) error {
	e.Status, e.Reason, e.Message = Error, reason, fmt.Sprintf(format, args...)
	return r.commitBetween(ctx, transaction{ops: r.elementOps(e)})
}

// notReplaceable has the ID and the state of a context, and the states that an Update may replace.
const notReplaceable = "the update is from app context %q, which is %s: must be one of %v"

// begin writes that an event is in progress, if it is valid for the state.
func (r *run) begin(ctx context.Context, e *Element) error {
	row, valid := r.engine.options.Transitions.Of(e.Event, r.img.record.State)
	if !valid {
		return r.refuse(ctx, e, ReasonInvalidState, "%s cannot begin in the state %s", e.Event, r.img.record.State)
	}
	compares := []store.Compare{store.Absent(stopKey(r.id)), store.Unchanged(r.img.detachedKV)}
	var ops []store.Op
	next := r.nextRecord()
	switch e.Event {
	case Update:
		kv, from, err := r.engine.stateOf(ctx, e.UCID)
		if errors.Is(err, ErrBroken) {
			return r.refuse(ctx, e, ReasonInvalidContext, "%s", err)
		}
		if err != nil {
			return err
		}
		if !kv.Exists() {
			return r.refuse(ctx, e, ReasonNotFound, "app context %q does not exist", e.UCID)
		}
		if row, valid := r.engine.options.Transitions.Of(UpdateDelete, from.State); !valid {
			return r.refuse(ctx, e, ReasonInvalidState, notReplaceable, e.UCID, from.State, row.From)
		}
		compares = append(compares, store.Unchanged(kv))
		links, err := r.replaces(ctx, e.UCID, &from, next)
		if err != nil {
			return err
		}
		compares, ops = append(compares, links.compares...), links.ops
	case UpdateDelete:
		kv, err := r.engine.store.Get(ctx, headKey(e.UCID))
		if err != nil {
			return err
		}
		if !kv.Exists() {
			return r.refuse(ctx, e, ReasonNotFound, "app context %q does not exist", e.UCID)
		}
	}
	e.Status = InProgress
	next.Current, next.Fresh, next.Partial = e.Seq, r.img.record.State.empty(), r.img.record.partial(e)
	if e.Event.moves() {
		next.State, next.Holds = row.Current, !e.Event.removes()
	}
	if e.Event == Terminate {
		next.Previous = nil
	}
	if err := r.commit(ctx, next, transaction{compares, append(ops, putElement(r.id, e))}); err != nil {
		return err
	}
	return r.plan(ctx, e, row)
}

// resume continues the event that was in progress when its engine ended. It does not check the
// state, which was valid when the event began.
func (r *run) resume(ctx context.Context) error {
	e := r.img.element(r.img.record.Current)
	if e == nil {
		return &brokenError{elementKey(r.id, r.img.record.Current)}
	}
	if before := r.img.record.Owner; before != r.session.name { // empty for a remnant, which begins with an event
		if err := r.commit(ctx, r.nextRecord(), transaction{}); err != nil {
			return err
		}
		if before != "" {
			r.engine.metrics.resumedEvent()
		}
	}
	row, _ := r.engine.options.Transitions.Of(e.Event, r.img.record.State)
	return r.plan(ctx, e, row)
}

// plan makes the tasks of the event in progress. Tasks that an earlier engine has ended stay ended.
func (r *run) plan(ctx context.Context, e *Element, row Transition) error {
	w := &work{element: e, row: row}
	spec, err := r.engine.loadSpec(ctx, &r.img.head)
	var other *appcontext.AppContext
	switch {
	case errors.As(err, new(*brokenError)):
		w.broken = err.Error()
	case err != nil:
		return err
	default:
		if other, w.broken, err = r.other(ctx, e); err != nil {
			return err
		}
	}
	if w.broken == "" {
		p := planner{event: e.Event, context: spec, other: other, order: r.engine.options.DeleteOrder,
			changed: r.engine.options.Comparer}
		p.whole, p.remnant, p.absent = r.img.record.Whole, r.img.head.Remnant, r.img.absences()
		if w.rollout, w.broken, err = r.loadRollout(ctx, e); err != nil {
			return err
		}
		p.ready, p.hold = w.rollout.ready()
		if e.Event == Heal {
			if p.drifted, err = r.drifted(ctx, e.Seq); err != nil {
				return err
			}
		}
		if e.Event == UpdateDelete {
			// Read after the begin: if the other context ends later, it reads that this context
			// holds nothing.
			_, rec, err := r.engine.stateOf(ctx, e.UCID)
			if err != nil {
				return err
			}
			p.ended = !rec.Holds
		}
		if w.broken == "" {
			w.tasks, w.broken = p.plan(), p.broken
			w.gates = p.gates
		}
	}
	before := r.img.statusesOf(e.Seq)
	for _, t := range w.tasks {
		if s := before[t.taskKey]; s != nil {
			t.recall(s)
		}
	}
	w.rollout.arrange(w.tasks, before)
	r.startWork(w)
	return nil
}

func (t *task) recall(s *ClusterStatus) {
	if !s.Phase.final() {
		t.reason, t.message = s.Reason, s.Message
		return
	}
	t.end, t.reason, t.message, t.states, t.omitted = s.Phase, s.Reason, s.Message, s.Resources, s.ResourcesOmitted
	t.deployed = s.Phase != PhaseFailed
	t.ready = t.deployed
}

// cut ends the waits of the event if the context is stopped, or if a Terminate is queued that is
// valid in the current state.
func (r *run) cut(ctx context.Context) error {
	w := r.work
	if w.hard {
		return nil
	}
	reason, hard := Reason(""), false
	if _, stopped, err := r.stopped(ctx); err != nil {
		return err
	} else if stopped {
		reason, hard = ReasonStopped, true
	} else if _, valid := r.engine.options.Transitions.Of(Terminate, r.img.record.State); valid {
		if slices.ContainsFunc(r.img.pending(), func(e *Element) bool { return e.Event == Terminate }) {
			reason = ReasonPreempted
		}
	}
	if reason == "" || w.cut == reason {
		return nil
	}
	w.cut, w.hard = reason, hard
	for _, t := range w.tasks {
		r.cutTask(t, reason, hard && !t.begun)
	}
	return nil
}
