// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/rsync/store"
)

// maxNamed is how many tasks that failed are named in the message of an element.
const maxNamed = 3

// outcome is what became of the event as a whole.
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
		failed++
		// A dependency that failed is named by its own reason, which another task has.
		if reason == "" || reason == ReasonDependency {
			reason = t.reason
		}
		if len(names) < maxNamed {
			names = append(names, fmt.Sprintf("%s on %s: %s: %s", t.app, t.cluster, t.reason, t.message))
		}
	}
	if failed == 0 {
		return Done, "", ""
	}
	message := strings.Join(names, "; ")
	if failed > len(names) {
		message += fmt.Sprintf("; and %d more", failed-len(names))
	}
	return Error, reason, message
}

// finish writes the end of the event, and in the same transaction the state that follows from it, the UpdateDelete that
// follows an Update, and, if the queue is empty, that the context is not active any more.
func (r *run) finish(ctx context.Context) error {
	w := r.work
	e := w.element
	e.Status, e.Reason, e.Message = w.outcome()
	next := r.nextRecord()
	next.Current = 0
	var compares []store.Compare
	var ops []store.Op
	if e.Event == Update && e.Status == Done {
		var err error
		compares, ops, err = r.follow(ctx, e)
		switch {
		case errors.Is(err, ErrBroken): // no repetition helps, and others wait in this queue
			e.Status, e.Reason, e.Message = Error, ReasonInvalidContext, err.Error()
		case err != nil:
			return err
		}
	}
	if e.Event != Read {
		next.State = w.row.Desired
		if e.Status == Error {
			next.State = w.row.Error
		}
	}
	ops = append(ops, r.elementOps(e)...)
	moreCompares, moreOps := r.drainOps(next)
	if err := r.commit(ctx, next, append(compares, moreCompares...), append(ops, moreOps...)); err != nil {
		return err
	}
	r.work = nil
	return nil
}

// follow queues the UpdateDelete of an Update in the context that the update is from. If that is stopped it is skipped at
// once; if it was removed meanwhile there is nothing to delete from.
func (r *run) follow(ctx context.Context, e *Element) ([]store.Compare, []store.Op, error) {
	from := e.UCID
	kv, err := r.engine.store.Get(ctx, queueKey(from))
	if err != nil {
		return nil, nil, err
	}
	if !kv.Exists() {
		return []store.Compare{store.Unchanged(kv)}, nil, nil
	}
	stop, err := r.engine.store.Get(ctx, stopKey(from))
	if err != nil {
		return nil, nil, err
	}
	var t tail
	if err := json.Unmarshal(kv.Value, &t); err != nil {
		return nil, nil, &brokenError{kv.Key}
	}
	second := Element{Seq: t.Next, Event: UpdateDelete, UCID: r.id, Status: Pending, Queued: r.engine.now()}
	if stop.Exists() {
		second.Status, second.Reason, second.Finished = Skip, ReasonStopped, second.Queued
	}
	e.Next = &EventRef{from, second.Seq}
	ops := []store.Op{putElement(from, &second), store.Put(queueKey(from), encode(tail{Next: t.Next + 1}))}
	if !stop.Exists() {
		ops = append(ops, putActive(from))
	}
	return []store.Compare{store.Unchanged(kv), store.Unchanged(stop)}, ops, nil
}
