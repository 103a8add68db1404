// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// SourcePhase is the phase of a work at its source.
type SourcePhase uint8

const (
	// SourceAbsent: the source has no record of the work.
	SourceAbsent SourcePhase = iota
	// SourceActive: the work exists.
	SourceActive
	// SourceDeleting: the work is deleted here and an agent may still have it. It is an object with
	// a deletionTimestamp or a tombstone.
	SourceDeleting
	// SourceGone: the deletion has ended or was given up, but the finalizers of others than the
	// agent keep the object.
	SourceGone
)

// IsDeleting reports whether the deletion of the work has begun.
func (p SourcePhase) IsDeleting() bool { return p >= SourceDeleting }

// SourceWork is the part of a source's record of a work that decisions need. The zero value is an
// unknown work.
type SourceWork struct {
	Phase SourcePhase
	Version
	// Seq is the sequence ID of the last accepted status. Time is the event time of that status.
	Seq  int64
	Time time.Time
	// CreateV is V at the creation, and DeleteV is V of the deletion. Events of agents without UIDs
	// are compared with them.
	CreateV, DeleteV int64
	// Unversioned is whether the work has V 0 in every state. Only agents of the profile
	// ManifestBundle support that.
	Unversioned bool
	// Reported is whether an agent has reported a status of it.
	Reported bool
}

// StatusEvent is the part of an agent's status or gone event that decisions need.
type StatusEvent struct {
	Version
	Seq  int64
	Gone bool
	// NoUID is whether the event carries no UID. Such events are ordered by Time.
	NoUID bool
	Time  time.Time
	// Bundle is whether the agent has the profile ManifestBundle: its events are ordered by
	// Seq. Other is whether its work was created at another time than the work of the source: a
	// source without a store counts versions from 1 again.
	Bundle, Other bool
}

// SourceActions are a source's reactions to an event. The zero value is no reaction.
type SourceActions struct {
	// Raise V above the V that the peer has shown, and send the work.
	Raise bool
	// Send the work without a change.
	Send bool
	// Accept the status.
	Accept bool
	// Confirmed: the agent has this version.
	Confirmed bool
	// Finish the deletion: the work is gone.
	Finish bool
	// DeleteUnknown makes a tombstone for an unknown work and sends the deletion.
	DeleteUnknown bool
	// AskStatus requests the status of this work. For an unknown work, the status shows whether the
	// work belongs to this source, because a status is sent to the source of its work.
	AskStatus bool
}

// OnStatus decides how a source reacts to a status or gone event. complete is whether the owner of
// the source has declared that all its works exist.
func OnStatus(w SourceWork, e StatusEvent, complete bool) SourceActions {
	switch {
	case w.Phase == SourceAbsent:
		return SourceActions{DeleteUnknown: complete && !e.Gone}
	case e.Bundle:
		return onBundleStatus(w, e)
	case e.NoUID:
		return onStatusWithoutUID(w, e)
	case e.Gone && w.Phase.IsDeleting() && e.UID == w.UID:
		// An older gone event may be repeated or late. The agent answers this deletion when it is
		// sent again.
		return SourceActions{Finish: e.V >= w.DeleteV}
	case e.Gone:
		// The agent removed a work that is live here: this store was rolled back to a time before
		// the deletion.
		return SourceActions{Raise: e.UID == w.UID || w.Behind(e.Version)}
	}
	own := e.UID == w.UID
	return SourceActions{
		Raise:     w.Behind(e.Version),
		Accept:    own && e.Seq > w.Seq,
		Confirmed: own && e.V == w.V,
	}
}

// onStatusWithoutUID compares the event of an agent without UIDs only with V. A version below
// CreateV is from an earlier incarnation.
func onStatusWithoutUID(w SourceWork, e StatusEvent) SourceActions {
	if e.Gone {
		return SourceActions{Finish: w.Phase.IsDeleting() && e.V >= w.DeleteV}
	}
	// Times are in whole seconds, so they may be equal. Accepting a status twice changes nothing.
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
	// Foreign is whether the entry names another source. NoSource is whether it names none.
	Foreign, NoSource bool
	// Bundle is whether the list has the profile ManifestBundle, where entries name no source. Own
	// is whether the list arrived on the topic of this source.
	Bundle, Own bool
}

// OnListEntry decides how a source reacts to one work in the list of an agent.
func OnListEntry(w SourceWork, e ListEntry, complete bool) SourceActions {
	switch {
	case e.Foreign:
		return SourceActions{}
	case w.Phase == SourceAbsent && e.Bundle:
		return SourceActions{DeleteUnknown: complete && e.Own, AskStatus: complete && !e.Own}
	case w.Phase == SourceAbsent:
		// V 0 is a request: the agent has the name of the work, but not the work. An agent without
		// UIDs does not name the source of the work. Its status does: it is sent to that source.
		return SourceActions{DeleteUnknown: complete && !e.NoSource && e.V > 0, AskStatus: complete && e.NoSource}
	case w.Unversioned:
		return SourceActions{Send: true, Confirmed: e.V == w.V} // no version shows whether it changed
	case e.NoSource:
		e.UID = w.UID
	}
	// An agent with a lower sequence has lost it. The request carries the source's sequence, so the
	// next statuses of the agent are accepted again.
	lost := !e.NoSource && e.UID == w.UID && e.Seq < w.Seq
	// The V of a bundle agent may be from an earlier process of the source, so its list does not
	// show whether it has the deletion. Before the first status, the list does not show which work
	// it has either.
	again := e.Bundle && (w.Phase.IsDeleting() || !w.Reported)
	return SourceActions{
		Raise:     w.Behind(e.Version),
		Send:      e.V < w.V || again,
		Confirmed: e.Version == w.Version && !again,
		AskStatus: e.Seq > w.Seq || lost,
	}
}
