// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// AgentState is the state of a work at an agent.
type AgentState int

const (
	// Unknown: the agent has no record of the work.
	Unknown AgentState = iota
	// Tombstone: the work was removed; UID and V are kept.
	Tombstone
	// Held: the work exists.
	Held
	// Deleting: the work exists and is being deleted.
	Deleting
)

// AgentWork is the part of an agent's record of a work that decisions need.
type AgentWork struct {
	State AgentState
	Version
	// NextV is V of the spec that waits for the end of the deletion, or 0. NextTime is its event
	// time.
	NextV    int64
	NextTime time.Time
	// Seq is the sequence ID of the last status published.
	Seq int64
	// Finalizers is whether the object has finalizers, or needs a cleanup without them: an earlier
	// process may have applied a work of an answer.
	Finalizers bool
	// Refused is whether the spec of this version was refused for lack of room.
	Refused bool
	// Time is the event time of the last accepted event of a source without UIDs.
	Time time.Time
}

// SpecEvent is the part of a spec event that decisions need.
type SpecEvent struct {
	Version
	Delete bool
	// SessionMine is whether the event carries the session of this agent process.
	SessionMine bool
	// StatusSeq is the sequence ID of the last status that the source accepted.
	StatusSeq int64
	// NoUID is whether the source sends no UID. Its events are ordered by Time, because its
	// versions may start again. If Time does not decide, V does.
	NoUID bool
	Time  time.Time
	// Bundle is whether the source has the profile ManifestBundle. Bare is whether its event
	// carries no name: such a source deletes an unknown work of a list with such an event.
	Bundle, Bare bool
}

// AgentAction is an agent's reaction to a spec event.
type AgentAction int

const (
	// Ignore the event.
	Ignore AgentAction = iota
	// Ask the source for the work: the event may be older than this process.
	Ask
	// Create the object, and drop a tombstone.
	Create
	// CreateDeleting creates the object in deletion, with the cleanup finalizer, so the work
	// controller removes the resources that an earlier process left.
	CreateDeleting
	// Take stores UID, V and spec. With an equal spec, only metadata changes and the status is
	// published at once.
	Take
	// KeepNext keeps the event as the spec to create when the deletion has ended.
	KeepNext
	// MarkDeleting stores UID and V and sets deletionTimestamp.
	MarkDeleting
	// Remove stores UID and V and removes the object at once, because it has no finalizer.
	Remove
	// TakeDelete stores UID and V of a deletion in progress, and drops the waiting spec, which is
	// older.
	TakeDelete
	// RepeatGone stores UID and V in the tombstone, and reports again that the work is gone.
	RepeatGone
	// PublishStatus publishes the status again, with a sequence above that of the source.
	PublishStatus
	// Answer sends the current state: the status, an acknowledgement, or gone.
	Answer
	// Confirm reports that the agent already has this version: the source has not received that
	// report.
	Confirm
)

// OnSpec decides how an agent reacts to a spec event.
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
	case !e.SessionMine && !e.NoUID:
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
		case !e.NoUID && !e.SessionMine: // may be a late event of an earlier process with a clock that was ahead
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
		if e.NoUID {
			return Ignore
		}
		return Confirm
	}
	switch {
	case e.Delete:
		return TakeDelete
	case !(e.NoUID || e.SessionMine): // as for a tombstone
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
		// A deletion raises V. Only a source without UIDs may delete without that.
		return onNewer(w, e)
	case w.State == Tombstone || e.NoUID:
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

// order compares an event with the agent's record.
func order(w AgentWork, e SpecEvent) ordering {
	if e.Bundle {
		return orderBundle(w, e)
	}
	if e.NoUID && !e.Time.IsZero() && !w.Time.IsZero() {
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

// OnHash decides whether an agent publishes the status of a work that a source listed: the source
// has another status, or has it under another incarnation, or lacks the last sequence ID. A
// tombstone is answered with gone.
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
