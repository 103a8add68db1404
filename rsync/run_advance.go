// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	// maxStateMessages limits the messages in the states of an app's resources on a cluster.
	// maxStates limits the states, which are one record. Both are in bytes.
	maxStateMessages = 64 << 10
	maxStates        = 500 << 10
	// maxMessage limits the stored text of an error, in bytes.
	maxMessage = 500
)

// advance processes the results from clusters, and begins tasks that can begin. It reports whether
// the event can end: all tasks have ended and their statuses are stored.
func (r *run) advance(ctx context.Context) (bool, error) {
	w := r.work
	results, waited := r.take()
	for _, res := range results {
		if t := res.op.task; t.op == res.op {
			r.apply(res)
			w.enqueue(t)
		}
	}
	for _, g := range waited {
		if !g.open { // otherwise it belongs to a dropped event
			g.open = true
			w.wake(g)
		}
	}
	r.noteNow()
	for moved := true; moved; {
		if err := r.admit(ctx); err != nil {
			return false, err
		}
		moved = false
		for len(w.queued) > 0 {
			t := w.queued[0]
			w.queued = w.queued[1:]
			moved = r.process(t) || moved
		}
	}
	if err := r.store(ctx, nil); err != nil {
		return false, err
	}
	return w.open == 0 && (w.rollout.over() || w.cut != ""), nil
}

func (r *run) apply(res result) {
	t := res.op.task
	switch {
	case res.retrying:
		r.note(t, res.reason, shorten(res.err))
	case res.reason == ReasonDetached:
		t.op = nil
		t.leaveOut()
	case res.reason != "":
		t.op = nil
		switch {
		case t.cleanUp(&res):
		case t.failure != nil:
			t.fail(t.failure.reason, t.failure.message)
		default:
			t.fail(res.reason, shorten(res.err))
		}
	default:
		t.op = nil
		p := &t.phases[t.at]
		t.deployed = t.deployed || p.deployed
		t.ready = t.ready || p.ready
		if p.verb == readVerb {
			t.states, t.omitted = withinLimit(res.states)
		}
		t.at++
	}
}

func shortenTo(s string, limit int) string {
	return cut.Text(strings.ToValidUTF8(s, "?"), limit)
}

func shorten(err error) string {
	if err == nil {
		return ""
	}
	return shortenTo(err.Error(), maxMessage)
}

// withinLimit shortens messages and omits states until the states fit into a record. It omits the
// states of ready resources first.
func withinLimit(states []connector.State) (kept []connector.State, omitted int) {
	kept = slices.Clone(states)
	each := maxStateMessages / max(len(kept), 1)
	size := 0
	for i := range kept {
		kept[i].Message = shortenTo(kept[i].Message, min(each, maxMessage))
		size += len(encode(kept[i]))
	}
	for _, onlyReady := range []bool{true, false} {
		kept = slices.DeleteFunc(kept, func(s connector.State) bool {
			omit := size > maxStates && (s.Ready || !onlyReady)
			if omit {
				size -= len(encode(s))
			}
			return omit
		})
	}
	return kept, len(states) - len(kept)
}

func (t *task) fail(reason Reason, message string) {
	t.end, t.reason, t.message, t.dirty = PhaseFailed, reason, message, true
}

// move begins the next phase of a task, or ends it.
func (r *run) move(t *task) {
	w := r.work
	cut := cmp.Or(w.cut, t.cut)
	if t.at == 0 && !t.begun {
		switch blocked, failed := r.blocked(t); {
		case failed != "":
			t.fail(ReasonDependency, failed)
			return
		case cut != "" && (blocked || w.hard):
			t.fail(cut, "it had to end before it began")
			return
		case blocked:
			return
		}
	}
	if t.at == len(t.phases) && t.failure != nil {
		t.fail(t.failure.reason, t.failure.message)
		return
	}
	if t.cut == ReasonDeadline && t.failure == nil {
		limit := fmt.Sprintf("it took longer than %s", w.rollout.record.ProgressDeadline)
		t.fail(ReasonDeadline, cmp.Or(t.message, limit))
		return
	}
	if t.at == len(t.phases) {
		t.end, t.reason, t.message = PhaseDone, "", t.leftMessage()
		if t.at == 0 {
			t.end = PhaseSkipped
		}
		t.deployed, t.ready, t.dirty = true, true, true
		return
	}
	t.begun = true
	t.op = &op{run: r, task: t, phase: t.phases[t.at], cut: cut}
	r.session.submit(t.op)
}

// store writes the changed statuses of tasks, in as few transactions as possible.
func (r *run) store(ctx context.Context, compares []store.Compare) error {
	var ops []store.Op
	now := r.engine.now()
	written := r.work.dirty
	for _, t := range written {
		t.dirty, t.listed = false, false
		ops = append(ops, putStatus(r.id, t.status(r.work.element, now, r.work.rollout.begun(t))))
	}
	r.work.dirty = nil
	for _, batch := range r.engine.batches(ops) {
		if err := r.commit(ctx, nil, transaction{compares, batch}); err != nil {
			return err
		}
	}
	for _, t := range written {
		r.img.absent[t.taskKey] = t.absent && r.work.rollout.begun(t).IsZero()
		r.work.rollout.stored(t, now)
	}
	return nil
}

func (t *task) status(e *Element, now, begun time.Time) *storedStatus {
	s := &storedStatus{Absent: t.absent && begun.IsZero()}
	s.ClusterStatus = ClusterStatus{
		App: t.app, Cluster: t.cluster, Seq: e.Seq, Event: e.Event, Phase: t.end, Reason: t.reason, Message: t.message,
		Time: now, Begun: begun, Resources: t.states, ResourcesOmitted: t.omitted,
	}
	switch {
	case t.end == "" && t.reason == "":
		s.Phase = PhaseProgressing
	case t.end == "":
		s.Phase = PhaseRetrying
	}
	return s
}
