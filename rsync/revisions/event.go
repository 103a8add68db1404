// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync"
)

// event is an event in progress.
type event struct {
	id string
	rsync.Element
	back bool // the automatic rollback after a failed rollout to the wanted revision
}

func (e *event) ref() rsync.EventRef { return rsync.EventRef{AppContextID: e.id, Seq: e.Seq} }

// from returns the revision that an update replaces, or 0.
func (e *event) from() int {
	id := e.UCID
	if e.Event == rsync.UpdateDelete {
		id = e.id
	}
	_, number, _ := ParseContextID(id)
	return number
}

// leads reports whether an event leads to the wanted revision.
func (w *worker) leads(e event, r *record) bool {
	id := ContextID(w.application, r.Wanted)
	switch e.Event {
	case rsync.Terminate:
		return r.Wanted == 0
	case rsync.UpdateDelete:
		return e.UCID == id
	default:
		return e.id == id && e.IdempotencyKey == r.key(e.UCID) || e.back
	}
}

// observe reads the states of all revisions, and the events in progress. It reads one revision
// after another until two passes agree, because an update that ends meanwhile changes two of them.
func (w *worker) observe(ctx context.Context, r *record) (revisions []revisionState, busy []event, err error) {
	if r.Reached && len(r.Revisions) <= w.manager.options.Keep {
		return []revisionState{{r.Wanted, rsync.Instantiated}}, nil, nil
	}
	var stopped []string
	for before := []revisionState(nil); ; before = revisions {
		revisions, busy, stopped, err = w.states(ctx, r)
		if err != nil || len(busy) > 0 {
			return revisions, busy, err // an update in progress may continue in a revision without an event yet
		}
		if slices.Equal(before, revisions) {
			break
		}
	}
	for _, id := range stopped { // by worker.stop
		if err := w.manager.engine.ClearStop(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	return revisions, nil, nil
}

// states returns the state of each revision, the events in progress and the stopped contexts.
func (w *worker) states(ctx context.Context, r *record) (
	revisions []revisionState, busy []event, stopped []string, err error,
) {
	var back rsync.EventRef
	for _, known := range r.Revisions {
		id := ContextID(w.application, known.Number)
		status, err := w.manager.engine.Status(ctx, id)
		if errors.Is(err, rsync.ErrNotFound) {
			revisions = append(revisions, revisionState{known.Number, ""})
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		for _, e := range status.Queue {
			if e.Rollback != nil && known.Number == r.Wanted {
				back = *e.Rollback
			}
			if !e.Status.Final() {
				busy = append(busy, event{id: id, Element: e})
			}
		}
		if status.Stopped {
			stopped = append(stopped, id)
		}
		revisions = append(revisions, revisionState{known.Number, status.State})
	}
	for i := range busy {
		busy[i].back = busy[i].ref() == back
	}
	return revisions, busy, stopped, nil
}

// begin queues the event of a step.
func (w *worker) begin(ctx context.Context, r *record, s step, target Target) (event, error) {
	w.show(Rolling, s.number, s.from, false, "")
	engine, e := w.manager.engine, event{id: ContextID(w.application, s.number)}
	e.Event = rsync.Instantiate
	if s.verb == update {
		e.Event, e.UCID = rsync.Update, ContextID(w.application, s.from)
	}
	call := func(options ...rsync.CallOption) (ref rsync.EventRef, err error) {
		if s.verb == update {
			ref, err = engine.Update(ctx, e.UCID, e.id, options...)
		} else {
			ref, err = engine.Instantiate(ctx, e.id, options...)
		}
		e.Seq = ref.Seq
		return ref, err
	}
	if target.Rollout != nil {
		key := r.key(e.UCID)
		ref, err := call(rsync.WithRollout(*target.Rollout), rsync.IdempotencyKey(key))
		if err != nil {
			return e, err
		}
		// The earlier rollout is done, but has left a revision that could not be deleted then.
		status, err := engine.RolloutStatus(ctx, ref)
		if err != nil || status.Status != rsync.Done {
			e.IdempotencyKey, e.Rollout = key, true
			return e, err
		}
	}
	_, err := call()
	return e, err
}

// wait waits for an event, and returns its error. If a newer target has waited for Patience, wait
// stops the event, and waits for its end. For an event that does not lead to the wanted revision,
// this time starts at once. A rollout is stopped without delay: it may take days, or wait for an
// approval.
func (w *worker) wait(ctx context.Context, r *record, e event) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		_, result = w.manager.engine.Wait(ctx, e.ref())
	}()
	defer func() {
		cancel()
		<-ended
	}()
	left, stopped := !w.leads(e, r), false
	var impatient <-chan time.Time
	for {
		newer, changed := w.newer()
		switch {
		case stopped || newer == nil && !left: // also if the newer target was withdrawn
			impatient = nil
		case e.Rollout, left && r.Wanted == 0, newer != nil && newer.Content == nil:
			impatient = time.After(0) // an event of a removed application need not finish first
		case impatient == nil:
			impatient = time.After(w.manager.options.Patience)
		}
		select {
		case <-changed:
		case <-impatient:
			klog.FromContext(ctx).Info("Stopped an event that takes long, for a newer target")
			if err := w.stop(ctx, r); err != nil {
				return err
			}
			stopped = true
		case <-ended:
			if errors.Is(result, rsync.ErrStopped) || errors.Is(result, rsync.ErrPreempted) {
				// Stopped by wait: the states decide the next step. A rollout needs another key to start
				// again.
				if !e.Rollout {
					return nil
				}
				r.Attempt++
				return w.manager.save(ctx, w.application, r)
			}
			if e.Rollout && errors.As(result, new(*rsync.EventError)) {
				result = &haltedError{result}
			}
			return result
		}
	}
}

// haltedError is the error of a failed or aborted rollout, which does not start again by itself.
type haltedError struct{ error }

// Unwrap returns the error of the event.
func (e *haltedError) Unwrap() error { return e.error }

// waitAll waits for several events, and returns the first error.
func (w *worker) waitAll(ctx context.Context, r *record, events []event) (first error) {
	for _, e := range events {
		if err := w.wait(ctx, r, e); err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return first
}

// stop stops all revisions, also those without an event, because the end of an update may be queued
// in one of them now. observe clears the stop.
func (w *worker) stop(ctx context.Context, r *record) error {
	for _, known := range r.Revisions {
		err := w.manager.engine.Stop(ctx, ContextID(w.application, known.Number))
		if err != nil && !errors.Is(err, rsync.ErrNotFound) {
			return err
		}
	}
	return nil
}
