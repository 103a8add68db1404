// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

// phase is the state of a [shared] watch. The package documentation has the diagram.
type phase int

const (
	// apart: too few objects are watched. Each has its own watch.
	apart phase = iota
	// gathering: enough objects are watched. Objects without a watch wait for the shared one, for a
	// second at most.
	gathering
	// trying: the shared watch is tried from time to time. Until then, each object has its own
	// watch.
	trying
	// sharing: the shared watch delivers the changes of the objects that share it.
	sharing
	// interrupted: the stream of the shared watch has ended, and the next is being opened.
	interrupted
	// leaving: the shared watch delivers the changes of each object until the object has its own watch.
	leaving
)

// step is an event that may change the phase.
type step int

const (
	enough      step = iota // enough objects are watched
	waited                  // objects have waited for a second
	established             // a stream has sent all existing objects
	ended                   // a stream has ended or was refused, and the next may do better
	givenUp                 // like ended, but single watches may do better
	unfit                   // too few objects are left, or the namespace has become too large
	abandoned               // no object depends on the watch any more
)

// after returns the phase that follows a step. Other steps do not change the phase.
func (p phase) after(s step) phase {
	switch {
	case s == abandoned:
		return apart
	case p == apart && s == enough:
		return gathering
	case p == gathering && (s == waited || s == ended || s == givenUp):
		return trying
	case (p == gathering || p == trying || p == interrupted) && s == established:
		return sharing
	case p == sharing && s == ended:
		return interrupted
	case p == sharing && s == unfit:
		return leaving
	case (p == sharing || p == interrupted || p == leaving) && s == givenUp:
		return trying
	}
	return p
}

// delivers reports whether objects that share the watch receive their changes from it.
func (p phase) delivers() bool { return p == sharing || p == leaving }
