// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
	"github.com/spokewire/sdk-go/internal/wait"
)

// arrival waits for a kind that the server does not have. It is the [watchSource] of the kind's
// CRD. All watches that wait for the kind share it.
type arrival struct {
	watch
	kind    schema.GroupVersionKind
	there   chan struct{} // closed when the kind exists
	changed wait.Signal   // the CRD

	// The watcher's mutex guards the following fields.
	waiting map[*watch]context.Context
	exists  bool // the CRD exists
	came    bool // the CRD was seen before its deletion, so the kind may have been served
	listed  bool // a stream has sent the first list
}

// awaitKind waits until the server has the kind of a watch, or ctx ends. Meanwhile it calls
// absentLocked of the source whenever the kind may have come and gone.
func (w *Watcher) awaitKind(ctx context.Context, user *watch) error {
	a := w.arrivalFor(ctx, user)
	defer a.leave(user)
	select {
	case <-a.there:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Watcher) arrivalFor(ctx context.Context, user *watch) *arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.arrivals[user.gvk]
	if a == nil {
		a = &arrival{
			kind: user.gvk, there: make(chan struct{}), changed: wait.NewSignal(),
			waiting: map[*watch]context.Context{},
		}
		w.arrivals[user.gvk] = a
		ctx := a.startLocked(w, a, schema.GroupVersionKind{})
		w.group.Go(func() { a.await(ctx) })
	}
	a.waiting[user] = ctx
	return a
}

func (a *arrival) leave(user *watch) {
	a.watcher.mu.Lock()
	defer a.watcher.mu.Unlock()
	if delete(a.waiting, user); len(a.waiting) == 0 {
		a.endsLocked()
	}
}

func (a *arrival) endsLocked() {
	a.cancel()
	if a.watcher.arrivals[a.kind] == a {
		delete(a.watcher.arrivals, a.kind)
	}
}

// await looks up the kind until it exists: after each change of the CRD, and at growing intervals.
func (a *arrival) await(ctx context.Context) {
	w, delay := a.watcher, newBackoff()
	for ctx.Err() == nil {
		w.kinds.forget(a.kind.GroupVersion())
		if _, err := w.kinds.resolve(ctx, a.kind); err == nil {
			w.mu.Lock()
			a.endsLocked()
			w.mu.Unlock()
			close(a.there)
			return
		}
		timer := w.options.Clock.NewTimer(delay())
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-a.changed:
			delay = newBackoff()
		}
		timer.Stop()
	}
}

func (a *arrival) target(context.Context, ScopedGVR) (stream.Target, error) {
	return stream.Target{
		Resource: schema.GroupVersionResource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
		},
		Name: a.watcher.kinds.name(a.kind.GroupKind()) + "." + a.kind.Group,
	}, nil
}

func (a *arrival) openLocked(ctx context.Context) (context.Context, string) {
	a.exists = false
	return ctx, stream.AnyVersion
}

func (a *arrival) takeLocked(e stream.Event) error {
	gone := false
	switch e.Type {
	case stream.Added, stream.Modified:
		a.exists, a.came = true, a.came || !e.Deleting
		a.changed.Set()
	case stream.Deleted:
		gone = a.came
		a.exists, a.came = false, false
	case stream.Synced:
		gone = !a.exists && (a.came || a.listed) // the CRD may have existed between two streams
		a.listed, a.came = true, a.came && a.exists
	}
	if gone {
		a.absentLocked()
	}
	return nil
}

func (a *arrival) endLocked(verdict, error) (rest time.Duration, again bool) { return 0, true }

func (a *arrival) absentLocked() {
	for user, ctx := range a.waiting {
		if ctx.Err() == nil {
			user.source.absentLocked()
		}
	}
}

func (w *Watcher) sleep(ctx context.Context, d time.Duration) bool {
	return wait.Sleep(ctx, w.options.Clock, d) == nil
}
