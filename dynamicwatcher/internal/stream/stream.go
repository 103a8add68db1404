// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package stream opens API watches that are limited to one object, or to what a label selector matches, and reads them.
// A stream begins with what exists, says where that ends, and goes on with what happens. It ends with an error; whoever
// reads it opens the next one at the resource version seen last.
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
	Namespace string // empty for all, and for resources without
	Name      string // of one object, or empty
	Selector  string // a label selector, or empty
	// Whole asks for objects; else it is their metadata.
	Whole bool
}

// Type says what an event tells.
type Type int

const (
	// Added is an object that exists, at the beginning of a stream, or that has come to match.
	Added Type = iota
	// Modified is an object that has changed.
	Modified
	// Deleted is an object that is gone or does not match any more.
	Deleted
	// Synced says that all that exists was told.
	Synced
	// Bookmark has only a resource version.
	Bookmark
)

// Event is one event of a stream.
type Event struct {
	Type            Type
	ResourceVersion string
	// The rest is empty in Synced and Bookmark. The UID of an object without one is its namespace and name.
	UID             types.UID
	Namespace, Name string
	Deleting        bool                       // it waits for its finalizers
	Object          *unstructured.Unstructured // of a Target that is Whole
}

// Stream is an open watch. One goroutine at a time may call Wait and Next; Close may be called from any and ends it.
type Stream interface {
	// Wait returns when Next may have something to tell, with Next's error. It is for who waits long: it takes less stack
	// than Next, which need not come after it.
	Wait() error
	// Next waits for an event. Its error ends the stream: io.EOF where the server ended it in an orderly way, a
	// StatusError that the server sent, or the connection's.
	Next() (Event, error)
	Close()
}

// Opener opens streams. It is safe for concurrent use.
type Opener interface {
	// Open begins a watch. With a resourceVersion the stream's beginning is not older than that; with
	// AnyVersion it is what any server has in its cache, and with "" what there is now. The stream
	// ends with ctx. The error is a StatusError where the server refused, and errors.Is(err,
	// ErrConnection) where it was not reached.
	Open(ctx context.Context, t Target, resourceVersion string) (Stream, error)
}

// AnyVersion is the resource version of what a server has in its cache, however old.
const AnyVersion = "0"

// ErrConnection marks errors of the way to the server.
var ErrConnection = errors.New("no connection to the API server")
