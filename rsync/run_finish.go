// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"context"
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
		compares, ops, e.Next, err = r.follow(ctx, e)
		switch {
		case errors.Is(err, ErrBroken): // no repetition helps, and others wait in this queue
			e.Status, e.Reason, e.Message = Error, ReasonInvalidContext, err.Error()
		case err != nil:
			return err
		}
	}
	if e.Status == Done && e.Event.removes() {
		ops = append(ops, store.Delete(linksKey(r.id)))
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
