// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// AgentState is what an agent knows of a work.
type AgentState int

const (
	// Unknown: nothing is known.
	Unknown AgentState = iota
	// Tombstone: the work was removed, UID and V are kept.
	Tombstone
	// Held: the work exists.
	Held
	// Deleting: the work exists and is being deleted.
	Deleting
)

// AgentWork is an agent's record of a work, as far as decisions need it.
type AgentWork struct {
	State AgentState
	Version
	// NextV is V of the spec that waits for the deletion to end, 0 for none; NextTime its event time.
	NextV    int64
	NextTime time.Time
	// Seq is the sequence ID of the last status published.
	Seq int64
	// Finalizers is whether the object has any, or must be cleaned up although it has none: an earlier
	// process may have applied a work that this one received in an answer.
	Finalizers bool
	// Refused is whether there was no room for the spec of this version.
	Refused bool
	// Time is the event time of what was taken last from a strict source.
	Time time.Time
}

// SpecEvent is a spec event, as far as decisions need it.
type SpecEvent struct {
	Version
	Delete bool
	// SessionMine is whether the event carries the session of this agent process.
	SessionMine bool
	// StatusSeq is the sequence ID of the last status that the source accepted.
	StatusSeq int64
	// Strict is whether the source sends no UID. Its events are ordered by Time, since its versions may
	// begin anew, and by V where the time says nothing.
	Strict bool
	Time   time.Time
	// Bundle is whether the strict source is one of the profile ManifestBundle. Bare is then whether the
	// event names no work: such a source so answers a list that has what it does not know.
	Bundle, Bare bool
}

// AgentAction is what an agent does about a spec event.
type AgentAction int

const (
	// Ignore the event.
	Ignore AgentAction = iota
	// Ask the source for the work: nobody knows whether the event is older than this process.
	Ask
	// Create the object, dropping a tombstone.
	Create
	// CreateDeleting makes the object in deletion, with the clean-up finalizer, so that whoever applies
	// works removes what an earlier process left.
	CreateDeleting
	// Take uid, V and spec. With an equal spec only metadata changes and the status is published at once.
	Take
	// KeepNext keeps the event as the spec to create when the deletion has ended.
	KeepNext
	// MarkDeleting takes uid and V and sets deletionTimestamp.
	MarkDeleting
	// Remove takes uid and V and removes the object at once: it has no finalizer.
	Remove
	// TakeDelete takes uid and V of a deletion under way, and drops the spec that waits, which is older.
	TakeDelete
	// RepeatGone takes uid and V into the tombstone and reports again that the work is gone.
	RepeatGone
	// PublishStatus again, with a sequence above what the source has.
	PublishStatus
	// Answer with what is true here: the status, an acknowledgement, or gone.
	Answer
	// Confirm that the agent has this version already: the source has not received that.
	Confirm
)

// OnSpec decides what an agent does about a spec event.
func OnSpec(w AgentWork, e SpecEvent) AgentAction {
	if w.State == Unknown {
		return onUnknown(e)
	}
	switch order(w, e) {
	case newer:
		return onNewer(w, e)
	case same:
		return onSame(w, e)
	}
	return Answer
}

func onUnknown(e SpecEvent) AgentAction {
	switch {
	case !e.SessionMine && !e.Strict:
		return Ask
	case e.Bare && e.Delete:
		return Ignore
	case e.Delete:
		return CreateDeleting
	}
	return Create
}

func onNewer(w AgentWork, e SpecEvent) AgentAction {
	switch w.State {
	case Tombstone:
		switch {
		case e.Delete:
			return RepeatGone
		case !e.Strict && !e.SessionMine: // a late event of a source's earlier process, whose clock was ahead, may be newer too
			return Ask
		}
		return Create
	case Held:
		switch {
		case !e.Delete:
			return Take
		case w.Finalizers:
			return MarkDeleting
		}
		return Remove
	}
	if w.NextV != 0 && order(AgentWork{Version: Version{V: w.NextV}, Time: w.NextTime}, e) != newer {
		if e.Strict {
			return Ignore
		}
		return Confirm
	}
	switch {
	case e.Delete:
		return TakeDelete
	case !(e.Strict || e.SessionMine): // as for a tombstone
		return Ask
	}
	return KeepNext
}

func onSame(w AgentWork, e SpecEvent) AgentAction {
	switch {
	case w.State == Tombstone && e.Delete:
		return RepeatGone
	case w.State == Held && w.Refused && !e.Delete:
		return Take
	case w.State == Held && e.StatusSeq > w.Seq:
		return PublishStatus
	case w.State == Held && e.Delete:
		// A deletion raises V, so this is only a strict source's, which may not.
		return onNewer(w, e)
	case w.State == Tombstone || e.Strict:
		return Ignore
	case e.StatusSeq < w.Seq:
		return Answer
	}
	return Confirm
}

type ordering int

const (
	older ordering = iota
	same
	newer
)

// order places an event against what the agent has.
func order(w AgentWork, e SpecEvent) ordering {
	if e.Bundle {
		return orderBundle(w, e)
	}
	if e.Strict && !e.Time.IsZero() && !w.Time.IsZero() {
		switch e.Time.Compare(w.Time) {
		case 1:
			return newer
		case -1:
			return older
		}
	}
	switch {
	case e.V > w.V:
		return newer
	case e.V == w.V && e.UID == w.UID:
		return same
	}
	return older
}

// HashEntry is one work in a source's request for statuses.
type HashEntry struct {
	UID       string
	Hash      string
	StatusSeq int64
}

// OnHash decides whether an agent publishes the status of a work that a source listed: when the
// source has another one, or has it under another incarnation, or has not received the last
// sequence ID: then both sides would go on with different digests. A tombstone answers gone.
func OnHash(w AgentWork, e HashEntry, ownHash string) AgentAction {
	switch w.State {
	case Unknown:
		return Ignore
	case Tombstone:
		return RepeatGone
	}
	switch {
	case e.Hash != ownHash, e.UID != "" && e.UID != w.UID:
		return PublishStatus
	case e.UID != "" && e.StatusSeq < w.Seq:
		return Answer
	}
	return Ignore
}
