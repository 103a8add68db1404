// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"slices"
)

//go:generate go run ./internal/statediagram

// Transition says in which states an event may begin, and what becomes of the state.
type Transition struct {
	Event EventType
	// From are the states in which it may begin.
	From []State
	// Current is the state while it is under way, Desired when it is done, Error when it failed.
	Desired, Current, Error State
}

// Transitions is a state machine: a row for each event but Read and Heal, which change no state.
// Read is valid in each state, Heal in Instantiated.
type Transitions []Transition

// TransitionsSeed is the table of EMCO's document, to the letter. Its columns of results for the two events
// of an update are transposed: the update context ends as Updated, in which no further update of it can
// begin, and no rollback. Select it with [Options].Transitions; the default is [TransitionsDefault].
var TransitionsSeed = Transitions{
	{Event: Instantiate, From: instantiable, Desired: Instantiated, Current: Instantiating, Error: InstantiateFailed},
	{Event: Terminate, From: terminable, Desired: Terminated, Current: Terminating, Error: TerminationFailed},
	{Event: Update, From: []State{Created, Updated}, Desired: Updated, Current: Updating, Error: UpdateFailed},
	{Event: UpdateDelete, From: []State{Instantiated}, Desired: Instantiated, Current: Instantiating, Error: InstantiateFailed},
}

// TransitionsDefault is the table that the engine uses: that of EMCO's document, with two differences. The
// results of the two events of an update are as EMCO's code has them: the update context ends as Instantiated
// and the initial one as Updated, so that the next update and a rollback can begin. And an update can begin
// again after any failure, from the context that failed, to it, or past it.
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
		Created, Terminated, TerminationFailed, Instantiated, Instantiating, InstantiateFailed, Updated, Updating, UpdateFailed,
	}
	terminable = []State{
		Terminating, TerminationFailed, Instantiated, Instantiating, InstantiateFailed, Updated, Updating, UpdateFailed,
	}
)

// Of returns the row of an event, and whether the event may begin in a state. Read and Heal have an
// empty row.
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

// validate finds tables that the engine cannot work with.
func (t Transitions) validate() error {
	seen := map[EventType]bool{}
	for _, row := range t {
		if !slices.Contains(EventTypes(), row.Event) || !row.Event.moves() || seen[row.Event] {
			return fmt.Errorf("%w: Options.Transitions has a row for %q, which is no event or has one already", ErrInvalidInput, row.Event)
		}
		seen[row.Event] = true
		for _, state := range append([]State{row.Desired, row.Current, row.Error}, row.From...) {
			if !slices.Contains(States(), state) {
				return fmt.Errorf("%w: Options.Transitions names %q for %s, which is no state", ErrInvalidInput, state, row.Event)
			}
		}
	}
	for _, event := range EventTypes() {
		if event.moves() && !seen[event] {
			return fmt.Errorf("%w: Options.Transitions has no row for %s", ErrInvalidInput, event)
		}
	}
	return nil
}
