// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "time"

// State is where the watch on an object stands.
type State string

const (
	// Establishing: the watch was asked for, and what exists has not been told yet.
	Establishing State = "Establishing"
	// Active: changes arrive.
	Active State = "Active"
	// Backoff: the watch ended or failed, and is tried again soon.
	Backoff State = "Backoff"
	// PendingKind: the server does not have the kind; the watch begins when it does.
	PendingKind State = "PendingKind"
	// NoAccess: the server refuses the watch, or the kind needs a namespace; it is tried again now and then.
	NoAccess State = "NoAccess"
)

// WatchStatus is the state of one watched object.
type WatchStatus struct {
	Object ObjectIdentifier
	State  State
	// Since is when the state began.
	Since time.Time
	// Consolidated is whether the object shares an API watch with others of its namespace; see [Options].Consolidate. The
	// state and what follows is then of that watch.
	Consolidated bool
	// Watchers is how many share the watch.
	Watchers int
	// ResourceVersion is the last that the server told, also of other objects of the resource.
	ResourceVersion string
	// Restarts is how many times the watch was begun anew.
	Restarts int
	// Err is why the state is Backoff, PendingKind or NoAccess.
	Err error
}
