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

// Reconciler is called for a watcher when something that it watches has changed, or began to be watched.
type Reconciler interface {
	// Reconcile brings a watcher up to date. What it returns counts as in controller-runtime. It is called from
	// Options.MaxConcurrentReconciles goroutines, never twice at once for one watcher; the context ends with Start's. It
	// may call any method of the DynamicWatcher, and mostly ends with AddOrUpdateWatcher.
	Reconcile(ctx context.Context, watcher ObjectIdentifier) (reconcile.Result, error)
}

// ReconcilerFunc is a function that is a Reconciler.
type ReconcilerFunc func(ctx context.Context, watcher ObjectIdentifier) (reconcile.Result, error)

// Reconcile implements [Reconciler].
func (f ReconcilerFunc) Reconcile(ctx context.Context, watcher ObjectIdentifier) (reconcile.Result, error) {
	return f(ctx, watcher)
}

// DynamicWatcher watches objects on behalf of others and has those reconciled. Its methods may be called from any
// goroutine. It is a controller-runtime manager.Runnable that needs leader election.
type DynamicWatcher interface { //nolint:interfacebloat // the source document and its first implementation have it so
	// AddOrUpdateWatcher replaces what a watcher watches; without any watched, that is nothing. It looks up kinds that are
	// not known yet, and does not wait for the watches to be established: WaitForSync does. After an error nothing has
	// changed: [*IdentifierError], [*KindError], ErrQueryBatchInProgress, ErrNotStarted after the end of Start, or why the
	// server could not be asked for a kind.
	AddOrUpdateWatcher(watcher ObjectIdentifier, watched ...ObjectIdentifier) error
	// AddWatcher adds one object to what a watcher watches. Its errors are those of AddOrUpdateWatcher.
	AddWatcher(watcher, watched ObjectIdentifier) error
	// AddWatcherAt is AddWatcher for a watcher that has seen the object at a resource version: it is reconciled at once
	// only when the object is at another, or gone.
	AddWatcherAt(watcher, watched ObjectIdentifier, resourceVersion string) error
	// RemoveWatcher ends all that a watcher watches. API watches that nobody else needs end. The watcher is not reconciled any
	// more, whatever it was queued for, unless a reconcile that is under way asks for another. A query batch of the watcher is
	// aborted. It returns an [*IdentifierError], and nil also for a watcher that is not known and after the end of Start.
	RemoveWatcher(watcher ObjectIdentifier) error

	// Start watches and reconciles until ctx ends, and returns nil when all its goroutines have ended. What was added before
	// is watched from then on. It can be called once; again it returns an error.
	Start(ctx context.Context) error
	// Started is closed when Start has begun.
	Started() <-chan struct{}
	// NeedLeaderElection returns true: a reconcile writes, mostly.
	NeedLeaderElection() bool

	// GetWatchCount returns how many API watches there are, of those being established too: one for each watched object, also
	// where it shares its watch ([Options].Consolidate). Before Start, and after its end, that is 0.
	GetWatchCount() int
	// Status returns the state of each watched object, in the order of identifiers; before Start they are Establishing, after
	// its end there are none.
	Status() []WatchStatus
	// WatchersOf returns who watches an object, WatchesOf what a watcher watches, in the order of identifiers.
	WatchersOf(watched ObjectIdentifier) []ObjectIdentifier
	WatchesOf(watcher ObjectIdentifier) []ObjectIdentifier
	// WaitForSync waits until all that a watcher watches has been seen, or is of a kind that does not exist. It returns a
	// StatusError of the server that refuses one of the watches, ErrNotStarted after the end of Start, and ctx's error.
	WaitForSync(ctx context.Context, watcher ObjectIdentifier) error

	Querier
	// StartQueryBatch begins to collect what the watcher's Get and List ask for. EndQueryBatch makes that the set of what
	// it watches, AbortQueryBatch leaves the set as it was before. QueryBatch does the three.
	StartQueryBatch(watcher ObjectIdentifier) error
	EndQueryBatch(watcher ObjectIdentifier) error
	AbortQueryBatch(watcher ObjectIdentifier) error
	// QueryBatch calls f within a query batch, which ends when f returns nil, and is aborted when it returns an error, which
	// QueryBatch returns, or panics.
	QueryBatch(ctx context.Context, watcher ObjectIdentifier, f func(Querier) error) error
	// GetFromCache and ListFromCache return what is cached, without watching anything: nil if the object does not exist, and
	// ErrNoCacheEntry if no watcher watches the object or list, or while its watch is not Active. GetFromCache needs a name.
	GetFromCache(gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	ListFromCache(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured, error)
	// ListWatchedFromCache returns all objects that the watcher watches and that exist, each once. It returns ErrNoCacheEntry
	// while one of the watches is not Active.
	ListWatchedFromCache(watcher ObjectIdentifier) ([]unstructured.Unstructured, error)
	// GVKToGVR returns the resource of a kind. The error is a [*KindError] where the server has no such kind, or none that can
	// be watched, and where the GVK cannot be one, as without a version; else ErrNotStarted after the end of Start, or why the
	// server could not be asked.
	GVKToGVR(gvk schema.GroupVersionKind) (ScopedGVR, error)
}

// Querier reads objects, and watches what it reads for a watcher. It needs Options.EnableCache and a query batch. Its
// methods wait until a watch delivers the changes of the object or list, for at most 10 s. The first read is consistent: it
// returns everything that was written before. Later reads return what the watch has delivered. While the watch is interrupted they
// wait for a watch that continues it, and return its error after 10 s. While the server refuses access they return the server's
// error at once. The watcher is not reconciled for what they return, but for later changes.
type Querier interface {
	// Get returns an object, or nil where there is none.
	Get(watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	// List returns what a selector matches, in the order of names. A nil selector matches all.
	List(watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured, error)
}
