// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The reasons for which methods of [DynamicWatcher] fail, for errors.Is.
var (
	// ErrNotStarted: a query, or any other call that needs a running watcher, came before Start or after it ended.
	ErrNotStarted = errors.New("the dynamic watcher is not running: this needs Start")
	// ErrCacheDisabled: a query needs Options.EnableCache.
	ErrCacheDisabled = errors.New("the cache is not enabled: queries need Options.EnableCache")
	// ErrInvalidInput: an argument cannot be used. For identifiers the error is an [*IdentifierError].
	ErrInvalidInput = errors.New("invalid input")
	// ErrNoVersionedResource: the server has no such kind in this version. The error is a [*KindError].
	ErrNoVersionedResource = errors.New("the server does not have this kind")
	// ErrQueryBatchInProgress: the watcher has a query batch under way, so its set cannot be changed otherwise.
	ErrQueryBatchInProgress = errors.New("a query batch of this watcher is under way")
	// ErrQueryBatchNotStarted: Get, List, EndQueryBatch and AbortQueryBatch need a StartQueryBatch before.
	ErrQueryBatchNotStarted = errors.New("no query batch of this watcher is under way")
	// ErrResourceUnwatchable: the server has the kind, but objects of it cannot be watched. The error is a [*KindError].
	ErrResourceUnwatchable = errors.New("objects of this kind cannot be watched")
	// ErrWatchStopping is there for code that handles it. It is never returned: an object whose watch is ending can be
	// watched anew at once.
	ErrWatchStopping = errors.New("the watched object has a watch being stopped")
	// ErrNoCacheEntry: no watcher watches the object or the list, or its watch does not deliver changes. The error has the reason.
	ErrNoCacheEntry = errors.New("there is no cache entry")
)

var errStopped = fmt.Errorf("%w; it was stopped", ErrNotStarted)

// IdentifierError says which field of an identifier is wrong. It is an [ErrInvalidInput].
type IdentifierError struct {
	Object ObjectIdentifier
	Field  string
	Reason string
	Err    error // the cause, where there is one
}

// Error returns the field, the reason and the identifier.
func (e *IdentifierError) Error() string {
	const most = 1024 // of an identifier that is too long
	object := e.Object.String()
	if len(object) > most {
		object = strings.ToValidUTF8(object[:most], "") + "…"
	}
	s := fmt.Sprintf("%s of %s %s", e.Field, object, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrInvalidInput and the cause.
func (e *IdentifierError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrInvalidInput}
	}
	return []error{ErrInvalidInput, e.Err}
}

// KindError is an [ErrNoVersionedResource] or an [ErrResourceUnwatchable] with the kind.
type KindError struct {
	Kind schema.GroupVersionKind
	// Reason is one of the two.
	Reason error
}

// Error returns the kind and the reason.
func (e *KindError) Error() string { return fmt.Sprintf("%s: %s", e.Kind, e.Reason) }

// Unwrap returns the reason.
func (e *KindError) Unwrap() error { return e.Reason }
