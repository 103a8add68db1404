// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/spokewire/sdk-go/rsync"
)

// wait waits for an event, and returns its error. When something newer has waited for long, it stops what is under way and goes on to wait: that ends soon then.
func (w *worker) wait(ctx context.Context, r *record, ref rsync.EventRef) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		_, result = w.manager.engine.Wait(ctx, ref)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	patience := time.NewTimer(w.manager.options.Patience)
	patience.Stop()
	defer patience.Stop()
	for arrived := w.arrival(); ; {
		select {
		case <-ended:
			if errors.Is(result, rsync.ErrStopped) || errors.Is(result, rsync.ErrPreempted) {
				return nil // by us: what is next follows from the states
			}
			return result
		case <-arrived:
			arrived = nil
			delay := w.manager.options.Patience
			if w.ends() {
				delay = 0
			}
			patience.Reset(delay)
		case <-patience.C:
			if arrived = w.arrival(); !w.newer() { // it was taken back
				continue
			}
			arrived = nil
			w.say("what is under way takes long, and is stopped for what is newer")
			if err := w.stop(ctx, r); err != nil {
				return err
			}
		}
	}
}

// waitAll waits for several, and returns the first error.
func (w *worker) waitAll(ctx context.Context, r *record, events []event) (first error) {
	for _, e := range events {
		if err := w.wait(ctx, r, e.EventRef); err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return first
}

// stop sets the latch on all revisions that have events. observe takes it back.
func (w *worker) stop(ctx context.Context, r *record) error {
	for _, known := range r.Revisions {
		id := ContextID(w.application, known.Number)
		status, err := w.manager.engine.Status(ctx, id)
		if errors.Is(err, rsync.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range status.Queue {
			if !e.Status.Final() {
				if err := w.manager.engine.Stop(ctx, id); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}
