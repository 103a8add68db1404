// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// SourceWork is a source's record of a work, as far as decisions need it. The zero value is an unknown work.
type SourceWork struct {
	Known bool
	Version
	// Deleting is whether the work is deleted here and an agent may still hold it: an object with a
	// deletionTimestamp or a tombstone.
	Deleting bool
	// Done is whether its deletion has ended, or was given up, and others than the agent hold the object.
	Done bool
	// Seq is the sequence ID of the last accepted status, Time the event time of that status.
	Seq  int64
	Time time.Time
	// CreateV is V at Create and DeleteV V of the deletion: what strict agents' events are held against.
	CreateV, DeleteV int64
	// Unversioned is whether the work has V 0 in every state, which only agents of the profile ManifestBundle
	// understand.
	Unversioned bool
	// Reported is whether an agent has reported a status of it.
	Reported bool
}

// StatusEvent is an agent's word on a work, as far as decisions need it.
type StatusEvent struct {
	Version
	Seq  int64
	Gone bool
	// Strict is whether the event carries no UID; it is then ordered by Time.
	Strict bool
	Time   time.Time
	// Bundle is whether the strict agent is one of the profile ManifestBundle: it is ordered by Seq. Other is then
	// whether what it holds was created at another time than the work: a source without a store counts anew.
	Bundle, Other bool
}

// SourceActions is what a source does about an event; zero is nothing.
type SourceActions struct {
	// Raise V above what the peer has shown, and send the work.
	Raise bool
	// Send the work as it is.
	Send bool
	// Accept the status.
	Accept bool
	// Confirmed: the agent has this version.
	Confirmed bool
	// Finish the deletion: the work is gone.
	Finish bool
	// DeleteUnknown makes a tombstone for an unknown work and sends the deletion.
	DeleteUnknown bool
	// AskStatus requests the status of this work. Of an unknown one it tells whether it is this source's:
	// statuses go to their own.
	AskStatus bool
}

// OnStatus decides what a source does about a status or gone event. complete is whether the owner of the
// source has said that all its works are re-created.
func OnStatus(w SourceWork, e StatusEvent, complete bool) SourceActions {
	switch {
	case !w.Known:
		return SourceActions{DeleteUnknown: complete && !e.Gone}
	case e.Bundle:
		return onBundleStatus(w, e)
	case e.Strict:
		return onStrictStatus(w, e)
	case e.Gone && w.Deleting && e.UID == w.UID:
		// An older one may be repeated or late. The agent answers this deletion when it is sent again.
		return SourceActions{Finish: e.V >= w.DeleteV}
	case e.Gone:
		// Gone while the work is live here: this store was rolled back to before the deletion.
		return SourceActions{Raise: e.UID == w.UID || w.Behind(e.Version)}
	}
	own := e.UID == w.UID
	return SourceActions{
		Raise:     w.Behind(e.Version),
		Accept:    own && e.Seq > w.Seq,
		Confirmed: own && e.V == w.V,
	}
}

// onStrictStatus holds a strict agent's event against V alone: a version below Create's is of an earlier
// incarnation.
func onStrictStatus(w SourceWork, e StatusEvent) SourceActions {
	if e.Gone {
		return SourceActions{Finish: w.Deleting && e.V >= w.DeleteV}
	}
	// Times of whole seconds may be equal; the same status twice changes nothing.
	fresh := !e.Time.Before(w.Time) || e.Time.IsZero()
	return SourceActions{
		Raise:     e.V > w.V,
		Accept:    e.V >= w.CreateV && fresh,
		Confirmed: e.V == w.V,
	}
}

// ListEntry is one work in an agent's request for specs.
type ListEntry struct {
	Version
	Seq int64
	// Foreign is whether the entry names another source; Strict whether it names none.
	Foreign, Strict bool
	// Bundle is whether the list is one of the profile ManifestBundle, where no entry names a source. Own is
	// whether it came on the topic of this source.
	Bundle, Own bool
}

// OnListEntry decides what a source does about one work that an agent lists.
func OnListEntry(w SourceWork, e ListEntry, complete bool) SourceActions {
	switch {
	case e.Foreign:
		return SourceActions{}
	case !w.Known && e.Bundle:
		return SourceActions{DeleteUnknown: complete && e.Own, AskStatus: complete && !e.Own}
	case !w.Known:
		// V 0 is an ask: the agent knows the name of the work, but does not hold it. A strict agent
		// does not tell whose the work is: its status goes to the source that it belongs to.
		return SourceActions{DeleteUnknown: complete && !e.Strict && e.V > 0, AskStatus: complete && e.Strict}
	case w.Unversioned:
		return SourceActions{Send: true, Confirmed: e.V == w.V} // nothing tells whether it changed
	case e.Strict:
		e.UID = w.UID
	}
	// An agent whose sequence is below what was accepted here lost it, with a clock that stepped back: the
	// request echoes ours, so that what it says from then on counts again.
	lost := !e.Strict && e.UID == w.UID && e.Seq < w.Seq
	// The V of a bundle agent may be an earlier process's: its list does not show whether it has
	// the deletion. Before its first status it does not show which work it has either.
	again := e.Bundle && (w.Deleting || !w.Reported)
	return SourceActions{
		Raise:     w.Behind(e.Version),
		Send:      e.V < w.V || again,
		Confirmed: e.Version == w.Version && !again,
		AskStatus: e.Seq > w.Seq || lost,
	}
}
