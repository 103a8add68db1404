// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// arrivals tells when kinds that did not exist do. Their CRDs are watched, one by one, by name.
type arrivals struct {
	kinds  *kinds
	opener stream.Opener
	clock  clock.WithTicker
	group  *sync.WaitGroup

	mu      sync.Mutex
	waiting map[schema.GroupVersionKind]*arrival
}

// arrival is a kind that some wait for.
type arrival struct {
	there  chan struct{} // closed when the kind exists
	gone   chan struct{} // closed and replaced when it may have come and gone; guarded by arrivals.mu
	users  int
	cancel context.CancelFunc
}

func newArrivals(k *kinds, o stream.Opener, c clock.WithTicker, group *sync.WaitGroup) *arrivals {
	return &arrivals{kinds: k, opener: o, clock: c, group: group, waiting: map[schema.GroupVersionKind]*arrival{}}
}

// wait returns nil when the server has a kind, or ctx's error. It calls gone when the kind may have come and gone.
func (a *arrivals) wait(ctx context.Context, gvk schema.GroupVersionKind, gone func()) error {
	a.mu.Lock()
	w := a.waiting[gvk]
	if w == nil {
		// Whoever waits first may leave before the others do.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		w = &arrival{there: make(chan struct{}), gone: make(chan struct{}), cancel: cancel}
		a.waiting[gvk] = w
		a.group.Go(func() { a.await(ctx, gvk, w) })
	}
	w.users++
	went := w.gone
	a.mu.Unlock()
	defer a.leave(gvk, w)
	for {
		select {
		case <-w.there:
			return nil
		case <-went:
			a.mu.Lock()
			went = w.gone
			a.mu.Unlock()
			gone()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// went says that the kind may have come and gone.
func (a *arrivals) went(w *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(w.gone)
	w.gone = make(chan struct{})
}

func (a *arrivals) leave(gvk schema.GroupVersionKind, w *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.users--; w.users == 0 {
		w.cancel()
		if a.waiting[gvk] == w {
			delete(a.waiting, gvk)
		}
	}
}

// await follows the CRD until the kind exists.
func (a *arrivals) await(ctx context.Context, gvk schema.GroupVersionKind, w *arrival) {
	defer w.cancel()
	events := make(chan struct{}, 1)
	var follower sync.WaitGroup
	follower.Go(func() { a.follow(ctx, gvk, w, events) })
	defer follower.Wait()
	defer w.cancel()

	// A server may take a moment from the last change of a CRD to when it serves the kind. The delays grow to what is
	// also the pace for kinds without a CRD of the usual name, such as those of aggregated API servers.
	delay := newBackoff()
	for ctx.Err() == nil {
		a.kinds.forget(gvk.GroupVersion())
		if _, err := a.kinds.resolve(ctx, gvk); err == nil {
			a.mu.Lock()
			delete(a.waiting, gvk) // who waits from now on looks anew
			a.mu.Unlock()
			close(w.there)
			return
		}
		timer := a.clock.NewTimer(delay())
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-events:
			delay = newBackoff()
		}
		timer.Stop()
	}
}

// follow watches the CRD and says when it has changed, or is gone.
func (a *arrivals) follow(ctx context.Context, gvk schema.GroupVersionKind, w *arrival, events chan<- struct{}) {
	crd := stream.Target{
		Resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		Name:     a.kinds.name(gvk.GroupKind()) + "." + gvk.Group,
	}
	delay, state := newBackoff(), crdState{}
	for ctx.Err() == nil {
		began := a.clock.Now()
		if s, err := a.opener.Open(ctx, crd, ""); err == nil {
			state.there = false
			for {
				e, err := s.Next()
				if err != nil {
					break
				}
				changed, gone := state.took(e)
				if gone {
					a.went(w)
				}
				if changed {
					select {
					case events <- struct{}{}:
					default:
					}
				}
			}
			s.Close()
		}
		if a.clock.Since(began) > stable {
			delay = newBackoff()
		}
		timer := a.clock.NewTimer(delay())
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// crdState is what is known of a CRD.
type crdState struct {
	there bool // it exists
	came  bool // and was not being deleted, so that the kind may have been served since
	told  bool // a stream has told what exists
}

// took reports whether an event says that a kind may be served, or may have been.
func (s *crdState) took(e stream.Event) (changed, gone bool) {
	switch e.Type {
	case stream.Added, stream.Modified:
		s.there = true
		s.came = s.came || !e.Deleting
		return true, false
	case stream.Deleted:
		gone = s.came
		s.there, s.came = false, false
	case stream.Synced:
		gone = !s.there && (s.came || s.told) // a CRD may have come and gone between two streams
		s.told, s.came = true, s.came && s.there
	}
	return false, gone
}
