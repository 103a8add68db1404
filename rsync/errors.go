// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"errors"
	"fmt"
	"time"
)

// The reasons for which methods of [Engine] fail, for errors.Is.
var (
	// ErrInvalidState: the state of the context does not allow it. What Wait returns for an event is an [*EventError].
	ErrInvalidState = errors.New("the state of the app context does not allow this")
	// ErrStopped: the context is stopped. ClearStop takes that back.
	ErrStopped = errors.New("the app context is stopped: ClearStop lets it go on")
	// ErrFenced: the engine has lost its lease, so another one may have its work. It writes nothing any more and begins anew.
	ErrFenced = errors.New("the engine has lost its lease")
	// ErrUnreachable: a cluster did not answer until the event had to end.
	ErrUnreachable = errors.New("a cluster does not answer")
	// ErrConflict: there is a context of that ID already, or others changed the context over and over.
	ErrConflict = errors.New("the app context is there already, or has changed meanwhile")
	// ErrNotFound: there is no such context, or its history no longer has the event.
	ErrNotFound = errors.New("there is no such app context or event")
	// ErrInvalidInput: an argument or an option cannot be used.
	ErrInvalidInput = errors.New("invalid input")
	// ErrFailed: an event failed on a cluster. ErrPreempted: a Terminate took its place.
	ErrFailed    = errors.New("a cluster refused")
	ErrPreempted = errors.New("a terminate took the place of the event")
	// ErrAborted: a rollout was aborted. ErrDeadline: a cluster took longer than Rollout.ProgressDeadline.
	ErrAborted  = errors.New("the rollout was aborted")
	ErrDeadline = errors.New("a cluster took longer than the progress deadline")
	// ErrBroken: what the store has of a context is missing or cannot be read, which no repetition helps.
	ErrBroken = errors.New("missing or broken")
)

// Reason says in a word why an element or an app on a cluster ended as it did.
type Reason string

// The reasons.
const (
	ReasonInvalidState     Reason = "InvalidState"     // the state does not allow the event
	ReasonNotFound         Reason = "NotFound"         // the other context of an update is not there
	ReasonStopped          Reason = "Stopped"          // the context was stopped
	ReasonPreempted        Reason = "Preempted"        // a Terminate was queued
	ReasonUnreachable      Reason = "Unreachable"      // the cluster did not answer until the event had to end
	ReasonRetriesExhausted Reason = "RetriesExhausted" // the cluster refused Options.MaxRetries times
	ReasonRefusedForNow    Reason = "RefusedForNow"    // the cluster refused, and is asked again
	ReasonNotReady         Reason = "NotReady"         // objects are not yet ready, or not yet gone
	ReasonRefused          Reason = "Refused"          // the cluster will never take it
	ReasonHookFailed       Reason = "HookFailed"       // an object that had to become ready has failed
	ReasonDependency       Reason = "Dependency"       // an app that this one depends on failed
	ReasonDeadline         Reason = "DeadlineExceeded" // the cluster took longer than Rollout.ProgressDeadline
	ReasonMaxFailures      Reason = "MaxFailures"      // more clusters of the rollout failed than may
	ReasonAborted          Reason = "Aborted"          // the rollout was aborted
	ReasonDetached         Reason = "Detached"         // the cluster is detached from the context; the app there is Skipped
	ReasonContested        Reason = "Contested"        // another writer undoes each Heal: only an Observation has it
	ReasonInvalidContext   Reason = "InvalidContext"   // what is stored of a context cannot be used, or Options.Comparer panicked at it
)

// sentinel is the error that belongs to a reason.
func (r Reason) sentinel() error {
	switch r {
	case ReasonInvalidState:
		return ErrInvalidState
	case ReasonNotFound:
		return ErrNotFound
	case ReasonStopped:
		return ErrStopped
	case ReasonPreempted:
		return ErrPreempted
	case ReasonUnreachable:
		return ErrUnreachable
	case ReasonAborted:
		return ErrAborted
	case ReasonDeadline:
		return ErrDeadline
	}
	return ErrFailed
}

// EventError is what Wait returns for an event that failed or was skipped. It is the sentinel of its reason.
type EventError struct {
	Ref     EventRef
	Event   EventType
	Status  ElementStatus
	Reason  Reason
	Message string
}

// Error returns the event, what became of it and why.
func (e *EventError) Error() string {
	s := fmt.Sprintf("%s of app context %s (event %d): %s, %s", e.Event, e.Ref.AppContextID, e.Ref.Seq, e.Status, e.Reason)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns the sentinel.
func (e *EventError) Unwrap() error { return e.Reason.sentinel() }

// UnfinishedError is what Wait returns when its context ends before the event.
type UnfinishedError struct {
	Ref EventRef
	// Event and Status are those of the event; empty if the store did not answer in time.
	Event  EventType
	Status ElementStatus
	// Waiting are the apps on clusters that are retried or not ready yet.
	Waiting []ClusterStatus
	// Err is the error of the context, and of the last attempt to reach the engine where that failed.
	Err error
}

// Error returns Err, and the reasons why the event is not done.
func (e *UnfinishedError) Error() string {
	s := fmt.Sprintf("%s: event %d of app context %q is not done", e.Err, e.Ref.Seq, e.Ref.AppContextID)
	if e.Status != "" {
		s = fmt.Sprintf("%s: %s of app context %q (event %d) is %s", e.Err, e.Event, e.Ref.AppContextID, e.Ref.Seq, e.Status)
	}
	for i := range e.Waiting {
		if i == maxNamed {
			return fmt.Sprintf("%s; and %d more", s, len(e.Waiting)-maxNamed)
		}
		w := &e.Waiting[i]
		s += fmt.Sprintf("; %s on %s: %s: %s", w.App, w.Cluster, w.Reason, w.Message)
	}
	return s
}

// Unwrap returns Err.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// UnfinishedGrace is how long Wait looks for the reasons after its context has ended.
const UnfinishedGrace = time.Second

// Unfinished returns the error of Wait for an event that was not done when its context ended with err. The status may be nil. It
// is for those who implement Wait by other means than [Engine.Wait].
func (s *Status) Unfinished(ref EventRef, err error) *UnfinishedError {
	e := &UnfinishedError{Ref: ref, Err: err}
	if s == nil {
		return e
	}
	if element := s.Element(ref.Seq); element != nil {
		e.Event, e.Status = element.Event, element.Status
	}
	for _, c := range s.Clusters {
		if c.Seq == ref.Seq && c.Phase == PhaseRetrying {
			e.Waiting = append(e.Waiting, c)
		}
	}
	return e
}

func notFound(id string) error { return fmt.Errorf("app context %q: %w", id, ErrNotFound) }
