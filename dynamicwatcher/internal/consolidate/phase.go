// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package consolidate decides when one watch on a namespace replaces the watches on single objects
// in it. It is pure: package dynamicwatcher makes the watches.
package consolidate

// Phase is the state of a shared watch. The documentation of package dynamicwatcher has the
// diagram.
type Phase int

const (
	// Apart: too few objects are watched. Each has its own watch.
	Apart Phase = iota
	// Gathering: objects without a watch wait for the shared one, for a second at most.
	Gathering
	// Trying: each object has its own watch, and the shared watch is tried from time to time.
	Trying
	// Sharing: the shared watch delivers the changes of the objects that share it.
	Sharing
	// Interrupted: the next stream of the shared watch is being opened.
	Interrupted
	// Leaving: the shared watch delivers the changes of an object until it has its own watch.
	Leaving
)

// Step is an event that may change the phase.
type Step int

// Steps.
const (
	Enough      Step = iota // enough objects are watched
	Waited                  // objects have waited for a second
	Established             // a stream has sent all existing objects
	Ended                   // a stream has ended or was refused, and the next may do better
	GivenUp                 // like ended, but single watches may do better
	Unfit                   // too few objects are left, or the namespace has become too large
	Abandoned               // no object depends on the watch any more
)

// After returns the phase that follows a step. Other steps do not change the phase.
func (p Phase) After(s Step) Phase {
	switch {
	case s == Abandoned:
		return Apart
	case p == Apart && s == Enough:
		return Gathering
	case p == Gathering && (s == Waited || s == Ended || s == GivenUp):
		return Trying
	case (p == Gathering || p == Trying || p == Interrupted) && s == Established:
		return Sharing
	case p == Sharing && s == Ended:
		return Interrupted
	case p == Sharing && s == Unfit:
		return Leaving
	case (p == Sharing || p == Interrupted || p == Leaving) && s == GivenUp:
		return Trying
	}
	return p
}

// Delivers reports whether objects that share the watch receive their changes from it.
func (p Phase) Delivers() bool { return p == Sharing || p == Leaving }
