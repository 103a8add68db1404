// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Errors of the methods of [DynamicWatcher], for errors.Is.
var (
	// ErrNotStarted: the call needs a running Watcher, and Start was not called yet or has ended.
	ErrNotStarted = errors.New("the watcher is not running")
	// ErrCacheDisabled: a query needs Options.EnableCache.
	ErrCacheDisabled = errors.New("the cache is disabled: set Options.EnableCache")
	// ErrInvalidInput: an argument is invalid. For identifiers the error is an [*IdentifierError].
	ErrInvalidInput = errors.New("invalid input")
	// ErrNoVersionedResource: the server does not have the kind in this version. The error is a
	// [*KindError].
	ErrNoVersionedResource = errors.New("the server does not have this kind")
	// ErrQueryBatchInProgress: the watcher has an open query batch. End or abort it first.
	ErrQueryBatchInProgress = errors.New("a query batch of this watcher is in progress")
	// ErrQueryBatchNotStarted: the watcher has no open query batch.
	ErrQueryBatchNotStarted = errors.New("no query batch of this watcher is in progress")
	// ErrResourceUnwatchable: the server has the kind, but objects of it cannot be watched. The
	// error is a [*KindError].
	ErrResourceUnwatchable = errors.New("objects of this kind cannot be watched")
	// ErrWatchStopping is never returned. It exists for code of kubernetes-dependency-watches.
	ErrWatchStopping = errors.New("the watched object has a watch being stopped")
	// ErrNoCacheEntry: no watcher watches the object or list, its watch does not deliver changes,
	// or an [ObjectCache] does not have it.
	ErrNoCacheEntry = errors.New("no cache entry")
)

var (
	errUnstarted = fmt.Errorf("%w: call Start", ErrNotStarted)
	errStopped   = fmt.Errorf("%w: Start has ended", ErrNotStarted)
)

// KindError reports that a kind does not exist or cannot be watched.
type KindError struct {
	Kind schema.GroupVersionKind
	// Reason is [ErrNoVersionedResource] or [ErrResourceUnwatchable].
	Reason error
}

// Error returns the kind and the reason.
func (e *KindError) Error() string { return fmt.Sprintf("%s: %s", e.Kind, e.Reason) }

// Unwrap returns the reason.
func (e *KindError) Unwrap() error { return e.Reason }
