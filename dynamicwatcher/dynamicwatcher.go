// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconciler reconciles a watcher after a change of an object that it watches, or when it begins to
// watch an object.
type Reconciler interface {
	// Reconcile brings a watcher up to date. Its results have the same meaning as in
	// controller-runtime. It is called from Options.MaxConcurrentReconciles goroutines, never
	// concurrently for one watcher. The context ends when the context of Start ends. Reconcile may
	// call any method of the DynamicWatcher.
	Reconcile(ctx context.Context, watcher ObjectIdentifier) (reconcile.Result, error)
}

// ReconcilerFunc is a function that implements [Reconciler].
type ReconcilerFunc func(ctx context.Context, watcher ObjectIdentifier) (reconcile.Result, error)

// Reconcile implements [Reconciler].
func (f ReconcilerFunc) Reconcile(ctx context.Context, watcher ObjectIdentifier) (reconcile.Result, error) {
	return f(ctx, watcher)
}

// DynamicWatcher watches objects on behalf of watchers, and reconciles the watchers. Its methods
// may be called from any goroutine. It is a controller-runtime manager.Runnable that needs leader
// election.
type DynamicWatcher interface { //nolint:interfacebloat // the source document and its first implementation have it so
	// AddOrUpdateWatcher replaces the objects that a watcher watches. Without watched objects, the
	// watches of the watcher end. It looks up unknown kinds, for 10 seconds at most, but does not
	// wait until the watches are established: WaitForSync does. The error is an [*IdentifierError],
	// a [*KindError], ErrQueryBatchInProgress, ErrNotStarted after the end of Start, or that of the
	// lookup. After an error nothing has changed.
	AddOrUpdateWatcher(watcher ObjectIdentifier, watched ...ObjectIdentifier) error
	// AddWatcher adds one object to those that a watcher watches, with the errors of
	// AddOrUpdateWatcher.
	AddWatcher(watcher, watched ObjectIdentifier) error
	// AddWatcherAt is AddWatcher for a watcher that has read the object at a resource version. The
	// watcher is reconciled immediately only if the object was changed or deleted since, or if an
	// existing watch lags behind this version. A new watch begins at this version or later. A version
	// that is not a number counts as unknown.
	AddWatcherAt(watcher, watched ObjectIdentifier, resourceVersion string) error
	// RemoveWatcher removes a watcher and its query batch. API watches without other watchers end.
	// A queued reconcile of the watcher is dropped, but a running reconcile may still be retried or
	// requeued. The error is an [*IdentifierError]; for an unknown watcher and after the end of
	// Start it is nil.
	RemoveWatcher(watcher ObjectIdentifier) error

	// Start watches and reconciles until ctx ends, and returns nil after all its goroutines have
	// returned. Watches that were added before begin now. A second call returns an error.
	Start(ctx context.Context) error
	// Started returns a channel that is closed when Start has begun.
	Started() <-chan struct{}
	// NeedLeaderElection returns true, because most reconciles write.
	NeedLeaderElection() bool

	// GetWatchCount returns the number of watched objects and selectors, and 0 before Start and
	// after its end.
	GetWatchCount() int
	// Status returns the state of each watched object, in the order of identifiers. Before Start
	// the state is StateEstablishing. After the end of Start, Status returns nil.
	Status() []WatchStatus
	// WatchersOf returns the watchers of an object, and WatchesOf the objects of a watcher, in the
	// order of identifiers.
	WatchersOf(watched ObjectIdentifier) []ObjectIdentifier
	WatchesOf(watcher ObjectIdentifier) []ObjectIdentifier
	// WaitForSync waits until each watch of a watcher has delivered the existing objects, or its kind
	// does not exist. The error is the server's StatusError if it refuses a watch, ErrNotStarted after
	// the end of Start or if ctx ends before Start, or that of ctx. Before Start it waits for Start.
	// For an unknown watcher it is nil.
	WaitForSync(ctx context.Context, watcher ObjectIdentifier) error

	Querier
	// StartQueryBatch begins to record the objects and lists that the watcher reads with Get and
	// List. EndQueryBatch makes them the watched objects of the watcher. AbortQueryBatch restores
	// the earlier watches.
	StartQueryBatch(watcher ObjectIdentifier) error
	EndQueryBatch(watcher ObjectIdentifier) error
	AbortQueryBatch(watcher ObjectIdentifier) error
	// QueryBatch calls f within a query batch, which ends if f returns nil. It is aborted if f
	// panics or returns an error, which QueryBatch returns.
	QueryBatch(ctx context.Context, watcher ObjectIdentifier, f func(Querier) error) error
	// GetFromCache and ListFromCache read the cache and add no watch. The object is nil if it does
	// not exist. The error is ErrNoCacheEntry if no watcher watches the object or list, or while
	// its watch is not StateActive. GetFromCache needs a name.
	GetFromCache(gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	ListFromCache(
		gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
	) ([]unstructured.Unstructured, error)
	// ListWatchedFromCache returns all existing objects that the watcher watches, each once, or
	// ErrNoCacheEntry while one of the watches is not StateActive.
	ListWatchedFromCache(watcher ObjectIdentifier) ([]unstructured.Unstructured, error)
	// GVKToGVR returns the resource of a kind. The error is a [*KindError] if the kind is invalid,
	// does not exist, or cannot be watched; ErrNotStarted after the end of Start; otherwise that of
	// the request.
	GVKToGVR(gvk schema.GroupVersionKind) (ScopedGVR, error)
}

// Querier reads objects for a watcher and watches them. It needs [Options].EnableCache and a query
// batch. The first read of an object that no watcher watches is consistent: it returns everything
// that was written before. Other reads return the state that the watch has delivered, which may be
// older. Only changes after the read cause a reconcile. While the watch does not deliver changes,
// the methods wait for at most 10 s, and then return its error. They return a refusal by the server
// immediately.
type Querier interface {
	// Get returns an object, or nil if it does not exist.
	Get(
		watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, name string,
	) (*unstructured.Unstructured, error)
	// List returns the objects that a selector matches, in the order of names. A nil selector
	// matches all.
	List(
		watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
	) ([]unstructured.Unstructured, error)
}
