// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"slices"
)

//go:generate go run ./internal/statediagram

// Transition defines in which states an event may begin, and the states that follow.
type Transition struct {
	Event EventType
	// From are the states in which the event may begin.
	From []State
	// Current is the state during the event, Desired the state after it, and Error the state after
	// it failed.
	Desired, Current, Error State
}

// Transitions is a state machine: a row for each event except Read and Heal, which change no state.
// Read is valid in each state, Heal in Instantiated.
type Transitions []Transition

// TransitionsSeed is the table of EMCO's document, unchanged. In that document the end states of
// the two events of an update are swapped. The new context ends as Updated, so it can neither be
// updated nor rolled back. Select the table with [Options].Transitions. The default is
// [TransitionsDefault].
var TransitionsSeed = Transitions{
	{Event: Instantiate, From: instantiable, Desired: Instantiated, Current: Instantiating, Error: InstantiateFailed},
	{Event: Terminate, From: terminable, Desired: Terminated, Current: Terminating, Error: TerminationFailed},
	{Event: Update, From: []State{Created, Updated}, Desired: Updated, Current: Updating, Error: UpdateFailed},
	{Event: UpdateDelete, From: []State{Instantiated}, Desired: Instantiated, Current: Instantiating,
		Error: InstantiateFailed},
}

// TransitionsDefault is the default table. It differs from EMCO's document in two ways. First, the
// results of the two events of an update are those of EMCO's code. The new context ends as
// Instantiated and the earlier one as Updated, so the next update and a rollback can begin. Second,
// an update can begin after any failure: from either context, to any other one.
var TransitionsDefault = Transitions{
	{Event: Instantiate, From: instantiable, Desired: Instantiated, Current: Instantiating, Error: InstantiateFailed},
	{Event: Terminate, From: terminable, Desired: Terminated, Current: Terminating, Error: TerminationFailed},
	{Event: Update, From: updatable, Desired: Instantiated, Current: Instantiating, Error: InstantiateFailed},
	{Event: UpdateDelete, From: replaceable, Desired: Updated, Current: Updating, Error: UpdateFailed},
}

var (
	updatable = []State{
		Created, Updated, Instantiated, InstantiateFailed, UpdateFailed, Terminated, TerminationFailed,
	}
	replaceable = []State{Instantiated, InstantiateFailed, UpdateFailed}

	instantiable = []State{
		Created, Terminated, TerminationFailed, Instantiated, Instantiating, InstantiateFailed, Updated, Updating,
		UpdateFailed,
	}
	terminable = []State{
		Terminating, TerminationFailed, Instantiated, Instantiating, InstantiateFailed, Updated, Updating, UpdateFailed,
	}
)

// Of returns the row of an event, and true if the event may begin in the state. The row of Read and
// Heal is empty.
func (t Transitions) Of(event EventType, state State) (Transition, bool) {
	if !event.moves() {
		return Transition{Event: event}, event == Read || state == Instantiated
	}
	for _, row := range t {
		if row.Event == event {
			return row, slices.Contains(row.From, state)
		}
	}
	return Transition{}, false
}

// validate returns an error for a table that the engine cannot use.
func (t Transitions) validate() error {
	seen := map[EventType]bool{}
	for _, row := range t {
		if !slices.Contains(eventTypes(), row.Event) || !row.Event.moves() || seen[row.Event] {
			return invalidOption("Transitions", "event %q: must have one row, and be known", row.Event)
		}
		seen[row.Event] = true
		for _, state := range append([]State{row.Desired, row.Current, row.Error}, row.From...) {
			if !slices.Contains(States(), state) {
				return invalidOption("Transitions", "state %q of %s: must be a known state", state, row.Event)
			}
		}
	}
	for _, event := range eventTypes() {
		if event.moves() && !seen[event] {
			return invalidOption("Transitions", "event %s: must have a row", event)
		}
	}
	return nil
}
