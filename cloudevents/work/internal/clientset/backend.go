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

// Backend is what the clientset asks of a source or an agent. Objects go in and out as snapshots: works makes
// the copies that are the caller's.
type Backend interface {
	// Object returns the current snapshot, or nil.
	Object(namespace, name string) *workv1.ManifestWork
	// WaitSynced waits until the initial sync of the backend is complete.
	WaitSynced(ctx context.Context) error
	// Refresh has the backend see what others have written. It reports whether that may be more than before.
	Refresh(ctx context.Context) (bool, error)
	// Reached returns an error for a resourceVersion from the future.
	Reached(version uint64) error
	// Create adds an object, which it keeps, and returns its snapshot.
	Create(ctx context.Context, obj *workv1.ManifestWork, dryRun bool) (*workv1.ManifestWork, error)
	// Admit prepares the change from current to next, which it may edit: it carries over what the verb
	// must not change and validates the rest. invalid is what the schema has against the change already.
	Admit(current, next *workv1.ManifestWork, sub Subresource, invalid field.ErrorList) error
	// Commit replaces current by next and returns the new snapshot; false when current is no longer
	// current.
	Commit(ctx context.Context, current, next *workv1.ManifestWork) (*workv1.ManifestWork, bool, error)
	// WaitDurable waits until all changes so far are in the Store.
	WaitDurable(ctx context.Context) error
	// Remove begins the deletion of current and returns its last state; false when it is no longer
	// current.
	Remove(ctx context.Context, current *workv1.ManifestWork, dryRun bool) (*workv1.ManifestWork, bool, error)
	// Supports returns a MethodNotSupported error for a verb that the backend does not have.
	Supports(verb string, sub Subresource) error
	// List answers a query. It may wait until the initial sync of the backend is complete.
	List(ctx context.Context, q *cache.Query) (cache.Page, error)
	// Watch begins a watch; one that resumes from version 0 begins with the next write.
	Watch(ctx context.Context, o cache.WatchOptions) (watch.Interface, error)
}

// Subresource is the part of an object that a write is about.
type Subresource string

const (
	whole Subresource = ""
	// StatusPart is the status subresource.
	StatusPart Subresource = "status"
)

// Reader is the part of a Backend that reads from a store.
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

// Reached implements Backend.
func (r Reader[R]) Reached(version uint64) error {
	r.Store.RLock()
	defer r.Store.RUnlock()
	return r.Store.Reached(version)
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

// Refresher looks again, once, for a write that seems to have nothing to do: others may have written
// what this backend has not read yet.
type Refresher struct {
	refresh func(context.Context) (bool, error)
	done    bool
}

// NewRefresher returns the one of a write, for the Refresh of its backend. Dry runs do not look again.
func NewRefresher(refresh func(context.Context) (bool, error), dryRun bool) *Refresher {
	return &Refresher{refresh, dryRun}
}

// Again reports whether to read again.
func (r *Refresher) Again(ctx context.Context) (bool, error) {
	if r.done {
		return false, nil
	}
	r.done = true
	return r.refresh(ctx)
}
