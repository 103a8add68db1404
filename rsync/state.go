// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"slices"
)

// State is the state of an AppContext.
type State string

// The states.
const (
	Created           State = "Created"
	Instantiating     State = "Instantiating"
	Instantiated      State = "Instantiated"
	InstantiateFailed State = "InstantiateFailed"
	Terminating       State = "Terminating"
	Terminated        State = "Terminated"
	TerminationFailed State = "TerminationFailed"
	Updating          State = "Updating"
	Updated           State = "Updated"
	UpdateFailed      State = "UpdateFailed"
)

// States returns all states.
func States() []State {
	return []State{
		Created, Instantiating, Instantiated, InstantiateFailed, Terminating, Terminated, TerminationFailed, Updating,
		Updated, UpdateFailed,
	}
}

// ParseState returns the state with a name. It also accepts the other spellings in EMCO's documents
// and code: InstantiationFailed, TerminateFailed, UpdatedFailed and Update. It returns false for an
// unknown name.
func ParseState(s string) (State, bool) {
	state := cmp.Or(otherSpellings[s], State(s))
	if !slices.Contains(States(), state) {
		return "", false
	}
	return state, true
}

var otherSpellings = map[string]State{
	"InstantiationFailed": InstantiateFailed, "TerminateFailed": TerminationFailed, "UpdatedFailed": UpdateFailed,
	"Update": Updated,
}

// empty reports whether a context in the state has no objects on clusters.
func (s State) empty() bool { return s == Created || s == Terminated || s == Updated }

// EventType is the type of an event on an AppContext.
type EventType string

// The events. The engine itself queues UpdateDelete and Heal.
const (
	Instantiate  EventType = "Instantiate"
	Terminate    EventType = "Terminate"
	Update       EventType = "Update"
	UpdateDelete EventType = "UpdateDelete"
	Read         EventType = "Read"
	// Heal reapplies objects that other writers have changed or deleted: see ObserveHeal. It
	// deletes nothing, runs no hooks and waits for nothing. It begins in the state Instantiated and
	// does not change the state.
	Heal EventType = "Heal"
)

func eventTypes() []EventType {
	return []EventType{Instantiate, Terminate, Update, UpdateDelete, Read, Heal}
}

// moves reports whether an event changes the state. The others have no row in a table of
// transitions.
func (t EventType) moves() bool { return t != Read && t != Heal }
