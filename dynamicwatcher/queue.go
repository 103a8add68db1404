// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// notifyLocked queues a watcher for a reconcile.
func (w *Watcher) notifyLocked(record *watching, t Trigger) {
	if len(record.triggers) == 0 {
		record.queued = w.options.Clock.Now()
	}
	record.addTrigger(t)
	w.metrics.notified(t.Type)
	w.due[record.id] = struct{}{}
	delay := w.options.BatchWindow
	if since := w.options.Clock.Since(record.began); !record.began.IsZero() {
		delay = max(delay, w.options.MinInterval-since)
	}
	if delay > 0 {
		w.queue.AddAfter(record.id, delay)
	} else {
		w.queue.Add(record.id)
	}
}

func (w *Watcher) work(ctx context.Context) {
	for {
		watcher, shutdown := w.queue.Get()
		if shutdown || ctx.Err() != nil { // the remaining items are dropped
			return
		}
		w.reconcileOne(ctx, watcher)
	}
}

func (w *Watcher) reconcileOne(ctx context.Context, watcher ObjectIdentifier) {
	defer w.queue.Done(watcher)
	triggers, waited, ok := w.takeTriggers(watcher)
	if !ok {
		w.queue.Forget(watcher)
		return
	}
	defer w.ran(watcher)
	ended := w.metrics.reconciling(waited)
	logger := w.logger.WithValues("watcher", watcher)
	result, err := w.call(context.WithValue(klog.NewContext(ctx, logger), triggersKey{}, triggers), watcher)
	switch {
	case err != nil && errors.Is(err, reconcile.TerminalError(nil)):
		logger.Error(err, "Failed to reconcile, not retrying")
		w.queue.Forget(watcher)
		ended(resultTerminal)
	case err != nil:
		logger.Error(err, "Failed to reconcile, retrying")
		w.giveBack(watcher, triggers)
		w.owe(watcher)
		w.queue.AddRateLimited(watcher)
		ended(resultError)
	case result.RequeueAfter > 0:
		w.queue.Forget(watcher)
		w.owe(watcher)
		w.queue.AddAfter(watcher, result.RequeueAfter)
		ended(resultAfter)
	case result.Requeue: //nolint:staticcheck // reconcilers may still set it
		w.owe(watcher)
		w.queue.AddRateLimited(watcher)
		ended(resultRequeue)
	default:
		w.queue.Forget(watcher)
		ended(resultSuccess)
	}
}

func (w *Watcher) call(ctx context.Context, watcher ObjectIdentifier) (_ reconcile.Result, err error) {
	if *w.options.RecoverPanic {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic in Reconcile: %v", p)
				klog.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
			}
		}()
	}
	return w.options.Reconciler.Reconcile(ctx, watcher)
}

// owe records that a watcher is queued for a reason other than a new trigger.
func (w *Watcher) owe(watcher ObjectIdentifier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[watcher] = struct{}{}
}

// takeTriggers returns the triggers of a queued watcher and how long the first waited, or -1. It
// returns false if the watcher was removed.
func (w *Watcher) takeTriggers(watcher ObjectIdentifier) (triggers []Trigger, waited time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.due[watcher]; !ok {
		return nil, 0, false
	}
	delete(w.due, watcher)
	now := w.options.Clock.Now()
	w.registry.busy[watcher] = now
	record := w.registry.watchers[watcher]
	if record == nil {
		return nil, -1, true
	}
	waited = -1
	if len(record.triggers) > 0 {
		waited = now.Sub(record.queued)
	}
	record.began = now
	triggers = slices.AppendSeq(make([]Trigger, 0, len(record.triggers)), maps.Values(record.triggers))
	slices.SortFunc(triggers, func(a, b Trigger) int { return compareIdentifiers(a.Watched, b.Watched) })
	record.triggers = nil
	w.registry.tidy(record)
	return triggers, waited, true
}

func (w *Watcher) ran(watcher ObjectIdentifier) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.registry.busy, watcher)
	if record := w.registry.watchers[watcher]; record != nil {
		record.ended = w.options.Clock.Now()
	}
}

// giveBack keeps triggers for the next attempt, unless there are newer ones.
func (w *Watcher) giveBack(watcher ObjectIdentifier, triggers []Trigger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.registry.watchers[watcher]
	if record == nil {
		return
	}
	for _, t := range triggers {
		if _, newer := record.triggers[t.Watched]; !newer {
			record.addTrigger(t)
		}
	}
}

func (w *watching) addTrigger(t Trigger) {
	if w.triggers == nil {
		w.triggers = map[ObjectIdentifier]Trigger{}
	}
	w.triggers[t.Watched] = t
}
