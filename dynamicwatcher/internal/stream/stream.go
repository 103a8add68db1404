// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package stream opens and reads API watches that are limited to one object, or to the objects that
// a label selector matches. A stream begins with the existing objects and an event that ends them.
// Then it delivers changes until it ends with an error. The reader opens the next stream at the
// last resource version.
package stream

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Target identifies the watched objects.
type Target struct {
	Resource  schema.GroupVersionResource
	Namespace string // empty for all namespaces, and for cluster-scoped resources
	Name      string // name of one object, or empty
	Selector  string // a label selector, or empty
	// Whole requests whole objects instead of their metadata.
	Whole bool
}

// Type is the type of an event.
type Type int

const (
	// Added is an object that exists at the beginning of a stream, was created, or began to match.
	Added Type = iota
	// Modified is an object that was changed.
	Modified
	// Deleted is an object that was deleted or does not match any more.
	Deleted
	// Synced ends the existing objects.
	Synced
	// Bookmark has only a resource version.
	Bookmark
)

// Event is one event of a stream.
type Event struct {
	Type            Type
	ResourceVersion string
	// The other fields are empty in Synced and Bookmark. If an object has no UID, UID is its
	// namespace and name.
	UID             types.UID
	Namespace, Name string
	Deleting        bool                       // it waits for its finalizers
	Object          *unstructured.Unstructured // of a Target that is Whole
}

// Stream is an open watch. One goroutine at a time may call Wait and Next. Any goroutine may call
// Close, which ends the stream.
type Stream interface {
	// Wait returns when Next may have an event, with the error of Next. It is for long waits,
	// because it uses less stack than Next. A call of Next need not follow.
	Wait() error
	// Next waits for an event. Its error ends the stream: io.EOF if the server ended it in an
	// orderly way, a StatusError that the server sent, or the error of the connection.
	Next() (Event, error)
	Close()
}

// Opener opens streams. It is safe for concurrent use.
type Opener interface {
	// Open opens a watch. The stream begins at a state that is not older than resourceVersion. With
	// AnyVersion the state is that of any server's cache, and with "" the current state. The stream
	// ends with ctx. The error is a StatusError if the server refused, and errors.Is(err,
	// ErrConnection) if the server was not reached.
	Open(ctx context.Context, t Target, resourceVersion string) (Stream, error)
}

// AnyVersion is the resource version for the state in a server's cache, however old.
const AnyVersion = "0"

// ErrConnection marks errors of the connection to the server.
var ErrConnection = errors.New("no connection to the API server")
