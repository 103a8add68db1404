// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/wait"
)

// WatchOptions configures the start and the events of a watch.
type WatchOptions struct {
	Filter
	// Resume starts after the write with version Since; otherwise the watch begins with the objects
	// that exist.
	Resume bool
	Since  uint64
	// Bookmarks requests a bookmark every minute and before the watch ends by its timeout.
	// MarkInitialEnd requests an annotated bookmark after the initial events. Until then there is a
	// bookmark every 5 s.
	Bookmarks, MarkInitialEnd bool
	// Timeout is the time after which the watch ends; 0 for no timeout.
	Timeout time.Duration
}

// Watcher is one watch. It implements [watch.Interface].
type Watcher struct {
	filter         Filter
	markInitialEnd bool
	result         chan watch.Event
	stop           context.CancelFunc
	wake           wait.Signal
	ends           *WatchEnds // of the cache
	most           int        // largest size of pending in bytes

	mu      sync.Mutex
	initial []*workv1.ManifestWork // objects that exist at the start; delivered first
	pending []pendingEvent
	next    int  // of pending
	bytes   int  // of pending
	ended   bool // no more events are queued; pending ones are still delivered
}

// pendingEvent is an event that waits for its watcher.
type pendingEvent struct {
	watch.Event
	cost int
}

var _ watch.Interface = &Watcher{}

// Watch begins a watch that lasts until ctx or the cache ends, or Stop is called. If the start is
// too old, the only event of the watch is the error Expired, as on the API server.
func (s *Cache[R]) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) {
	if s.closed {
		return nil, apierrors.NewServiceUnavailable("the source or agent of this watch has stopped")
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{
		filter:         o.Filter,
		markInitialEnd: o.MarkInitialEnd,
		result:         make(chan watch.Event),
		stop:           cancel,
		wake:           wait.NewSignal(),
		ends:           &s.ends,
		most:           s.limits.Bytes,
	}
	s.begin(w, o)
	s.enter(w)
	var bookmark func()
	if o.Bookmarks {
		bookmark = func() { s.bookmark(w) }
	}
	go func() {
		defer close(w.result)
		defer s.forget(w)
		defer cancel()
		w.run(ctx, s.clock, o.Timeout, bookmark)
	}()
	return w, nil
}

// begin queues the first events of the watch.
func (s *Cache[R]) begin(w *Watcher, o WatchOptions) {
	if !o.Resume {
		w.initial = s.collectLocked(&o.Filter, nil)
		if o.MarkInitialEnd && !s.held {
			w.release(s.version)
		}
		return
	}
	if o.Since > s.version {
		s.ends.Future++
		w.fail(tooLargeVersion(o.Since, s.version))
		return
	}
	s.expire()
	events, ok := s.log.since(o.Since)
	if !ok {
		s.ends.Expired++
		w.fail(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", o.Since, s.log.trimmed)))
		return
	}
	for e := range events {
		if !w.filter.place().has(e.object) {
			continue
		}
		if out, _, ok := w.filter.translate(&e); ok {
			w.queueLocked(out, 0) // its size is bounded by the log
		}
	}
}

// tooLargeVersion returns the API server's error for a version from the future.
func tooLargeVersion(requested, current uint64) *apierrors.StatusError {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", requested, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// ResultChan returns the channel of events. The receiver may change their objects, except the bytes
// of manifests.
func (w *Watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch; ResultChan is closed soon after.
func (w *Watcher) Stop() { w.stop() }

// offerLocked queues the event of a write. It never blocks. If the pending events exceed the limit,
// the error Expired replaces them and the watch ends. The events of the start do not count.
func (w *Watcher) offerLocked(e *event) {
	out, cost, ok := w.filter.translate(e)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if w.bytes+cost > w.most {
		w.initial, w.pending, w.next, w.bytes = nil, nil, 0, 0
		w.queueLocked(errorEvent(apierrors.NewResourceExpired(
			fmt.Sprintf("the watch is too slow: the events that were not read keep more than %d bytes", w.most))), 0)
		w.ended = true
		w.ends.Slow++
		return
	}
	w.queueLocked(out, cost)
}

// queueLocked adds an event. The watcher's mutex is locked, or the watch has not begun.
func (w *Watcher) queueLocked(e watch.Event, cost int) {
	if len(w.pending) == cap(w.pending) && w.next > len(w.pending)/2 { // instead of growing
		n := copy(w.pending, w.pending[w.next:])
		clear(w.pending[n:])
		w.pending, w.next = w.pending[:n], 0
	}
	w.pending = append(w.pending, pendingEvent{e, cost})
	w.bytes += cost
	w.wake.Set()
}

// take returns the next event, and whether there is one. ended is whether there will be no more
// events.
func (w *Watcher) take() (e watch.Event, ok, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.initial) > 0 {
		obj := w.initial[0]
		w.initial[0] = nil
		w.initial = w.initial[1:]
		return watch.Event{Type: watch.Added, Object: obj}, true, false
	}
	w.initial = nil
	if w.next == len(w.pending) {
		const reused = 64
		if w.next = 0; cap(w.pending) <= reused {
			w.pending = w.pending[:0]
		} else {
			w.pending = nil
		}
		return watch.Event{}, false, w.ended
	}
	p := &w.pending[w.next]
	e = p.Event
	w.bytes -= p.cost
	*p = pendingEvent{}
	w.next++
	return e, true, false
}

// release queues the end marker of the initial events, once.
func (w *Watcher) release(version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.markInitialEnd || w.ended {
		return
	}
	w.markInitialEnd = false
	w.queueLocked(watch.Event{Type: watch.Bookmark, Object: initialEndObject(version)}, 0)
}

// fail queues an error and ends the watch after it.
func (w *Watcher) fail(err *apierrors.StatusError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queueLocked(errorEvent(err), 0)
	w.ended = true
}

// end ends the watch after the pending events.
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.wake.Set()
}

func errorEvent(err *apierrors.StatusError) watch.Event {
	status := err.Status()
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return watch.Event{Type: watch.Error, Object: &status}
}

// run delivers events until the watch ends.
func (w *Watcher) run(ctx context.Context, c clock.WithTicker, timeout time.Duration, bookmark func()) {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := c.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C()
	}
	var due <-chan time.Time
	var next clock.Timer
	if bookmark != nil {
		next = c.NewTimer(w.bookmarkPause())
		defer func() { next.Stop() }()
		due = next.C()
	}
	w.sortInitial()
	for {
		if !w.deliver(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-due:
			bookmark()
			next.Reset(w.bookmarkPause())
		case <-expired:
			if bookmark != nil {
				bookmark()
			}
			w.end()
		}
	}
}

// bookmarkPause returns the time until the next bookmark.
func (w *Watcher) bookmarkPause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.markInitialEnd {
		return heldInterval
	}
	return bookmarkInterval
}

// sortInitial sorts the objects at the start. It runs without the cache's lock, because it takes
// too long.
func (w *Watcher) sortInitial() {
	w.mu.Lock()
	initial := w.initial
	w.mu.Unlock()
	slices.SortFunc(initial, compareObjects) // only this goroutine uses its elements
}

// deliver sends all pending events. It returns false when the watch has ended.
func (w *Watcher) deliver(ctx context.Context) bool {
	for {
		e, ok, ended := w.take()
		if !ok {
			return !ended
		}
		if !w.send(ctx, e) {
			return false
		}
	}
}

func (w *Watcher) send(ctx context.Context, e watch.Event) bool {
	if obj, ok := e.Object.(*workv1.ManifestWork); ok {
		e.Object = detach(obj)
	}
	select {
	case w.result <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// detach copies an object except the bytes of its manifests, the largest part. Receivers may change
// the copy: transforms of informers do so, and controllers sometimes forget to copy.
func detach(obj *workv1.ManifestWork) *workv1.ManifestWork {
	out := *obj
	obj.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	spec := obj.Spec
	spec.Workload.Manifests = nil
	spec.DeepCopyInto(&out.Spec)
	out.Spec.Workload.Manifests = slices.Clone(obj.Spec.Workload.Manifests)
	obj.Status.DeepCopyInto(&out.Status)
	return &out
}
