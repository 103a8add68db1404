// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store

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
)

// maxPending is how many events may wait for a watcher that does not read; it is then closed with an error,
// as nobody waits for it. Initial events do not count.
const maxPending = 16_384

// WatchOptions says where a watch begins and what it gets.
type WatchOptions struct {
	Filter
	// Resume starts after the write with version Since; otherwise the watch begins with the objects that
	// exist.
	Resume bool
	Since  uint64
	// Bookmarks asks for one every minute and before the watch ends by itself; MarkInitialEnd for one,
	// annotated, behind the initial events.
	Bookmarks, MarkInitialEnd bool
	// Timeout ends the watch; 0 for none.
	Timeout time.Duration
}

// Watcher is one watch. It implements [watch.Interface].
type Watcher struct {
	filter         Filter
	markInitialEnd bool
	result         chan watch.Event
	stop           context.CancelFunc
	wake           chan struct{}
	ends           *WatchEnds // of the store

	mu      sync.Mutex
	initial []*workv1.ManifestWork
	pending []watch.Event
	ended   bool // no more events come; what is pending is still delivered
}

var _ watch.Interface = &Watcher{}

// Watch begins a watch that lasts until ctx or the store ends, or Stop is called. A start that lies too far
// back gives a watch whose only event is the error Expired, as the API server does.
func (s *Store[R]) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) {
	if s.closed {
		return nil, apierrors.NewServiceUnavailable("the client of this watch has stopped")
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{
		filter:         o.Filter,
		markInitialEnd: o.MarkInitialEnd,
		result:         make(chan watch.Event),
		stop:           cancel,
		wake:           make(chan struct{}, 1),
		ends:           &s.ends,
	}
	s.begin(w, o)
	watchers := s.watchers[o.Namespace]
	if watchers == nil {
		watchers = map[*Watcher]struct{}{}
		s.watchers[o.Namespace] = watchers
	}
	watchers[w] = struct{}{}
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

// begin queues what the watch starts with.
func (s *Store[R]) begin(w *Watcher, o WatchOptions) {
	if !o.Resume {
		w.initial = s.collect(&o.Filter, nil)
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
	events, ok := s.log.since(o.Since)
	if !ok {
		s.ends.Expired++
		w.fail(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", o.Since, s.log.trimmed)))
		return
	}
	for e := range events {
		if w.filter.Namespace == "" || w.filter.Namespace == e.object.Namespace {
			w.offer(e)
		}
	}
}

// tooLargeVersion is the API server's answer to a version from the future.
func tooLargeVersion(requested, current uint64) *apierrors.StatusError {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", requested, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// ResultChan returns the events. Their objects are the receiver's own, but for the bytes of manifests.
func (w *Watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch; ResultChan is closed soon after.
func (w *Watcher) Stop() { w.stop() }

// offer queues what the watcher sees of a write. It never blocks. The store's lock is held.
func (w *Watcher) offer(e event) {
	out, ok := w.filter.translate(e)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if len(w.pending) >= maxPending {
		w.pending = []watch.Event{errorEvent(apierrors.NewResourceExpired(
			fmt.Sprintf("the watch is too slow: %d events were not read", maxPending)))}
		w.ended = true
		w.ends.Slow++
	} else {
		w.pending = append(w.pending, out)
	}
	w.signal()
}

// release queues the end marker of the initial events, once.
func (w *Watcher) release(version uint64) {
	if !w.markInitialEnd {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.markInitialEnd = false
	w.pending = append(w.pending, watch.Event{Type: watch.Bookmark, Object: initialEndObject(version)})
	w.signal()
}

// fail queues an error and ends the watch behind it.
func (w *Watcher) fail(err *apierrors.StatusError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, errorEvent(err))
	w.ended = true
	w.signal()
}

// end lets what is pending go out and then ends the watch.
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func errorEvent(err *apierrors.StatusError) watch.Event {
	status := err.Status()
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return watch.Event{Type: watch.Error, Object: &status}
}

// run delivers until the watch ends.
func (w *Watcher) run(ctx context.Context, c clock.WithTicker, timeout time.Duration, bookmark func()) {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := c.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C()
	}
	var minute <-chan time.Time
	if bookmark != nil {
		ticker := c.NewTicker(bookmarkInterval)
		defer ticker.Stop()
		minute = ticker.C()
	}
	for {
		if !w.deliver(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-minute:
			bookmark()
		case <-expired:
			if bookmark != nil {
				bookmark()
			}
			w.end()
		}
	}
}

// deliver sends all that is pending. It returns false when the watch has ended.
func (w *Watcher) deliver(ctx context.Context) bool {
	for {
		w.mu.Lock()
		initial, pending, ended := w.initial, w.pending, w.ended
		w.initial, w.pending = nil, nil
		w.mu.Unlock()
		sortObjects(initial)
		for _, obj := range initial {
			if !w.send(ctx, watch.Event{Type: watch.Added, Object: obj}) {
				return false
			}
		}
		for i := range pending {
			if !w.send(ctx, pending[i]) {
				return false
			}
		}
		if len(initial)+len(pending) == 0 {
			return !ended
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

// detach copies an object but for the bytes of its manifests, which are most of it and which nobody writes into. A
// receiver may do with it what one does with objects from an API server, whether one should or not: transforms of
// informers edit what they get, and controllers forget to copy.
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
