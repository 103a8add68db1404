// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// Backend is the source or the agent behind a clientset. Its objects are snapshots: works makes the
// copies for the callers.
type Backend interface { //nolint:interfacebloat // the steps of the verbs of an API server
	// Object returns the current snapshot, or nil.
	Object(namespace, name string) *workv1.ManifestWork
	// Stopped reports whether Start has returned.
	Stopped() bool
	// WaitSynced waits until the initial sync of the backend is complete.
	WaitSynced(ctx context.Context) error
	// Refresh has the backend read the writes of others. It reports whether there may be new ones.
	Refresh(ctx context.Context) (bool, error)
	// Reached waits until the backend has a resourceVersion, and returns the error Timeout after 3 s.
	Reached(ctx context.Context, version uint64) error
	// Create adds an object, which it keeps, and returns its snapshot. It completes and validates
	// the object before it calls Create.Check.
	Create(ctx context.Context, obj *workv1.ManifestWork, c Create) (*workv1.ManifestWork, error)
	// Admit prepares the change from current to next, and may edit next. It carries over the fields
	// that the verb must not change and validates the rest. invalid has the known schema errors of
	// the change.
	Admit(current, next *workv1.ManifestWork, sub Subresource, invalid field.ErrorList) error
	// Commit replaces current by next and returns the new snapshot. It returns false if current is
	// outdated.
	Commit(ctx context.Context, current, next *workv1.ManifestWork) (*workv1.ManifestWork, bool, error)
	// WaitDurable waits until all changes so far are in the Store.
	WaitDurable(ctx context.Context) error
	// Remove begins the deletion of current and returns its last state. It returns false if current
	// is outdated.
	Remove(ctx context.Context, current *workv1.ManifestWork, dryRun bool) (*workv1.ManifestWork, bool, error)
	// Supports returns a MethodNotSupported error for a verb that the backend does not support.
	Supports(verb string, sub Subresource) error
	// List answers a query. It may wait until the initial sync of the backend is complete.
	List(ctx context.Context, q *cache.Query) (cache.Page, error)
	// Watch begins a watch. A watch that resumes from version 0 begins with the next write.
	Watch(ctx context.Context, o cache.WatchOptions) (watch.Interface, error)
}

// Subresource is the part of an object that a write changes.
type Subresource string

const (
	whole Subresource = ""
	// StatusPart is the status subresource.
	StatusPart Subresource = "status"
)

// Reader implements the reading methods of a Backend with a cache.
type Reader[R cache.Record] struct {
	Store *cache.Cache[R]
}

// Object implements Backend.
func (r Reader[R]) Object(namespace, name string) *workv1.ManifestWork {
	r.Store.RLock()
	defer r.Store.RUnlock()
	var none R
	if w := r.Store.Get(namespace, name); w != none {
		return w.Slot().Object
	}
	return nil
}

// Stopped implements Backend.
func (r Reader[R]) Stopped() bool {
	r.Store.RLock()
	defer r.Store.RUnlock()
	return r.Store.Closed()
}

// Reached implements Backend.
func (r Reader[R]) Reached(ctx context.Context, version uint64) error {
	return r.Store.WaitReached(ctx, version)
}

// List implements Backend.
func (r Reader[R]) List(_ context.Context, q *cache.Query) (cache.Page, error) {
	return r.Store.List(q)
}

// Watch implements Backend.
func (r Reader[R]) Watch(ctx context.Context, o cache.WatchOptions) (watch.Interface, error) {
	r.Store.Lock()
	defer r.Store.Unlock()
	if o.Resume && o.Since == 0 {
		o.Since = r.Store.LastVersion()
	}
	w, err := r.Store.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Refresher refreshes the backend once for a write that seems to have no effect: others may have
// written changes that this backend has not read yet.
type Refresher struct {
	refresh func(context.Context) (bool, error)
	done    bool
}

// NewRefresher returns the Refresher of a write; refresh is that of its backend. Dry runs do not
// refresh.
func NewRefresher(refresh func(context.Context) (bool, error), dryRun bool) *Refresher {
	return &Refresher{refresh, dryRun}
}

// Again refreshes the backend, the first time only. It reports whether to read the object again.
func (r *Refresher) Again(ctx context.Context) (bool, error) {
	if r.done {
		return false, nil
	}
	r.done = true
	return r.refresh(ctx)
}
