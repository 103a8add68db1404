// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/spokewire/sdk-go/rsync"
)

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
		case e.Rollout, left && r.Wanted == 0, newer != nil && newer.Rendering == nil:
			impatient = time.After(0) // an event of a removed application need not finish first
		case impatient == nil:
			impatient = time.After(w.manager.options.Patience)
		}
		select {
		case <-changed:
		case <-impatient:
			w.log("the event in progress takes long and is stopped for a newer one")
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
