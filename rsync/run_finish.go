// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/rsync/store"
)

// maxNamed limits the failed tasks that the message of an element names.
const maxNamed = 3

func (w *work) outcome() (ElementStatus, Reason, string) {
	if w.broken != "" {
		return Error, ReasonInvalidContext, w.broken
	}
	var reason Reason
	var names []string
	failed := 0
	for _, t := range w.tasks {
		if t.end != PhaseFailed {
			continue
		}
		if t.reason == ReasonMaxFailures || t.reason == ReasonAborted && !t.begun {
			continue // the rollout did not begin it, and reports the reason itself
		}
		failed++
		// A failed dependency is reported with its own reason, which another task has.
		if reason == "" || reason == ReasonDependency {
			reason = t.reason
		}
		if len(names) < maxNamed {
			names = append(names, fmt.Sprintf("%s on %s: %s: %s", t.app, t.cluster, t.reason, t.message))
		}
	}
	message := strings.Join(names, "; ")
	if failed > len(names) {
		message += fmt.Sprintf("; and %d more", failed-len(names))
	}
	if w.rollout != nil {
		reason, message = w.rollout.outcome(cmp.Or(reason, w.cut), message)
	}
	if failed == 0 && reason == "" {
		return Done, "", ""
	}
	return Error, reason, message
}

// outcome adds to the reason and the message of an event why its rollout did not complete.
func (o *rollout) outcome(reason Reason, message string) (Reason, string) {
	switch {
	case o.verdict.halt == ReasonAborted:
		reason = ReasonAborted
	case o.verdict.halt != "":
		reason = cmp.Or(reason, o.verdict.halt)
	case reason == "":
		return "", ""
	}
	return reason, joined(message, o.verdict.waits)
}

// finish writes the end of the event and the next state. In the same transaction an Update queues
// its UpdateDelete, and a failed rollout its rollback.
func (r *run) finish(ctx context.Context) error {
	if r.img.head.Remnant != nil {
		return r.finishRemnant(ctx)
	}
	w := r.work
	e := w.element
	e.Status, e.Reason, e.Message = w.outcome()
	next := r.nextRecord()
	next.Current = 0
	var t transaction
	if e.Event == Update && e.Status == Done {
		var err error
		t, e.Next, err = r.follow(ctx, e)
		switch {
		case errors.Is(err, ErrBroken): // retries would not help, and would block this queue
			e.Status, e.Reason, e.Message = Error, ReasonInvalidContext, err.Error()
		case err != nil:
			return err
		}
	}
	if e.Status == Error && w.rollout != nil && w.rollout.record.RollbackOnFailure && w.cut == "" {
		var err error
		if t, err = r.rollBack(ctx, e); err != nil {
			return err
		}
	}
	if w.rollout != nil { // an Abort accepted meanwhile must take effect
		t.compares = append(t.compares, store.Unchanged(w.rollout.kv))
		w.rollout.record.Ended = w.rollout.statuses()
		t.ops = append(t.ops, store.Put(w.rollout.kv.Key, encode(w.rollout.record)))
	}
	if e.Status == Done && e.Event.removes() {
		t.ops = append(t.ops, store.Delete(linksKey(r.id)))
	}
	if left, changed := r.img.detached.handled(w); changed && e.Status == Done && e.Event.moves() {
		t.add(transaction{[]store.Compare{store.Unchanged(r.img.detachedKV)}, []store.Op{left.put(r.id)}})
	}
	if e.Event.moves() {
		next.State = w.row.Desired
		next.Partial = next.Partial && e.Status == Error
		if e.Status == Error {
			next.State = w.row.Error
		}
	}
	t.ops = append(t.ops, r.elementOps(e)...)
	if e.Rollback != nil && e.Rollback.AppContextID == r.id {
		r.queueChanged.Store(true) // its queue is not empty
	} else {
		t.add(r.releaseOps(next))
	}
	if err := r.commit(ctx, next, t); err != nil {
		return err
	}
	r.stopTimers()
	r.work = nil
	return nil
}

// rollBack queues the rollback of a failed rollout: an Update back to the earlier context, or a
// Terminate after an Instantiate. It queues nothing if no rollback is possible, or if the queue has
// a Terminate.
func (r *run) rollBack(ctx context.Context, e *Element) (transaction, error) {
	id, back := r.id, Element{Event: Terminate}
	if e.Event == Update {
		kv, from, err := r.engine.stateOf(ctx, e.UCID)
		if errors.Is(err, ErrBroken) || err == nil && (!kv.Exists() || from.State != Instantiated) {
			return transaction{}, nil
		}
		if err != nil {
			return transaction{}, err
		}
		id, back = e.UCID, Element{Event: Update, UCID: r.id}
	} else if !r.img.record.Fresh {
		return transaction{}, nil
	}
	queued, ref, err := r.queueIn(ctx, id, back)
	if err != nil {
		return transaction{}, err
	}
	// Read after the tail, which is a condition of the write: a later Terminate changes the tail.
	if terminates, err := r.terminates(ctx, id); err != nil || terminates {
		return transaction{}, err
	}
	e.Rollback = ref
	return queued, nil
}

func (r *run) terminates(ctx context.Context, id string) (bool, error) {
	result, err := r.engine.store.Range(ctx, queueKey(id))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(result.KVs, func(kv store.KeyValue) bool {
		var e Element
		return json.Unmarshal(kv.Value, &e) == nil && e.Event == Terminate && !e.Status.Final()
	}), nil
}
