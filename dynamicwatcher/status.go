// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "time"

// State is the state of the watch on an object.
type State string

const (
	// StateEstablishing: the watch was requested, and has not delivered all existing objects yet.
	StateEstablishing State = "Establishing"
	// StateActive: the watch delivers changes.
	StateActive State = "Active"
	// StateBackoff: the watch ended or failed, and is opened again after a delay.
	StateBackoff State = "Backoff"
	// StatePendingKind: the server does not have the kind. The watch begins when the server has it.
	StatePendingKind State = "PendingKind"
	// StateNoAccess: the server refuses the watch, or the identifier lacks the namespace of a
	// namespaced kind. The watch is retried with backoff.
	StateNoAccess State = "NoAccess"
)

// WatchStatus is the state of one watched object.
type WatchStatus struct {
	Object ObjectIdentifier
	State  State
	// Since is the time at which the state began.
	Since time.Time
	// Consolidated is true if the object shares an API watch on its namespace. State and
	// ResourceVersion are then those of the shared watch.
	Consolidated bool
	// Watchers is the number of watchers of the object.
	Watchers int
	// ResourceVersion is the version up to which the watch has received all changes. It also grows
	// when other objects of the kind change.
	ResourceVersion string
	// Restarts is how many times the watch was opened again.
	Restarts int
	// Err is the reason for StateBackoff, StatePendingKind or StateNoAccess.
	Err error
}
