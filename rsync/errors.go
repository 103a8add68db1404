// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// The errors of methods of [Engine], for errors.Is.
var (
	// ErrInvalidState: the state of the context does not allow the call or the event.
	ErrInvalidState = errors.New("the state of the app context does not allow this")
	// ErrStopped: the context is stopped until ClearStop.
	ErrStopped = errors.New("the app context is stopped: call ClearStop to continue")
	// ErrFenced: the engine has lost its lease, so another engine may own its contexts. It writes
	// nothing until it has a new lease.
	ErrFenced = errors.New("the engine has lost its lease")
	// ErrUnreachable: the event had to end while a cluster did not answer.
	ErrUnreachable = errors.New("a cluster does not answer")
	// ErrConflict: a context with the ID exists, or other writers changed the context during each
	// attempt.
	ErrConflict = errors.New("the app context already exists, or was changed at the same time")
	// ErrNotFound: the context or the event does not exist, or the event is no longer in the
	// history.
	ErrNotFound = errors.New("app context or event not found")
	// ErrInvalidInput: an argument or an option is invalid.
	ErrInvalidInput = errors.New("invalid input")
	// ErrFailed: an event failed on a cluster. ErrPreempted: a Terminate replaced the event.
	ErrFailed    = errors.New("a cluster refused")
	ErrPreempted = errors.New("a terminate replaced the event")
	// ErrAborted: a rollout was aborted. ErrDeadline: a cluster took longer than
	// Rollout.ProgressDeadline.
	ErrAborted  = errors.New("the rollout was aborted")
	ErrDeadline = errors.New("a cluster took longer than the progress deadline")
	// ErrBroken: a value of a context is missing in the store or cannot be decoded. A retry does
	// not help.
	ErrBroken = errors.New("missing or broken")
)

// Reason is the cause, in one word, of the status of an element or of an app on a cluster.
type Reason string

// The reasons.
const (
	ReasonInvalidState     Reason = "InvalidState"     // the state does not allow the event
	ReasonNotFound         Reason = "NotFound"         // the other context of an update does not exist
	ReasonStopped          Reason = "Stopped"          // the context was stopped
	ReasonPreempted        Reason = "Preempted"        // a Terminate was queued
	ReasonUnreachable      Reason = "Unreachable"      // the event had to end while the cluster did not answer
	ReasonRetriesExhausted Reason = "RetriesExhausted" // the cluster refused Options.MaxRetries times
	ReasonRefusedForNow    Reason = "RefusedForNow"    // the cluster refused, and the engine tries again
	ReasonNotReady         Reason = "NotReady"         // objects are not yet ready, or not yet gone
	ReasonRefused          Reason = "Refused"          // the cluster refused for good
	ReasonHookFailed       Reason = "HookFailed"       // an object that had to become ready has failed
	ReasonDependency       Reason = "Dependency"       // an app that this one depends on failed
	ReasonDeadline         Reason = "DeadlineExceeded" // the cluster took longer than Rollout.ProgressDeadline
	ReasonMaxFailures      Reason = "MaxFailures"      // more clusters of the rollout failed than MaxFailures allows
	ReasonAborted          Reason = "Aborted"          // the rollout was aborted
	ReasonDetached         Reason = "Detached"         // the cluster is detached from the context
	ReasonContested        Reason = "Contested"        // another writer undoes each Heal: only an Observation has it
	ReasonInvalidContext   Reason = "InvalidContext"   // a stored value is invalid, or Options.Comparer panicked
)

// sentinels has the errors that belong to reasons. The error of all other reasons is ErrFailed.
var sentinels = map[Reason]error{
	ReasonInvalidState: ErrInvalidState, ReasonNotFound: ErrNotFound, ReasonStopped: ErrStopped,
	ReasonPreempted: ErrPreempted, ReasonUnreachable: ErrUnreachable, ReasonAborted: ErrAborted,
	ReasonDeadline: ErrDeadline,
}

func (r Reason) sentinel() error { return cmp.Or(sentinels[r], ErrFailed) }

// EventError is the error of Wait for an event that failed or was skipped. It wraps the error that
// belongs to its reason.
type EventError struct {
	Ref     EventRef
	Event   EventType
	Status  ElementStatus
	Reason  Reason
	Message string
}

// Error returns the event, its status and the reason.
func (e *EventError) Error() string {
	s := fmt.Sprintf("%s of app context %s (event %d): %s, %s", e.Event, e.Ref.AppContextID, e.Ref.Seq, e.Status,
		e.Reason)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns the error that belongs to the reason.
func (e *EventError) Unwrap() error { return e.Reason.sentinel() }

// UnfinishedError is the error of Wait when ctx ends before the event.
type UnfinishedError struct {
	Ref EventRef
	// Event and Status are the type and the status of the event. They are empty if the store did
	// not answer in time.
	Event  EventType
	Status ElementStatus
	// Waiting has the apps on clusters that wait: their phase is Retrying.
	Waiting []ClusterStatus
	// Rollout is the reason why a rollout waits, as in [RolloutStatus].Waiting.
	Rollout string
	// Err is the error of ctx. If the last attempt to read the event failed, Err includes the error
	// of that attempt.
	Err error
}

// Error returns Err and the reasons in Rollout and Waiting.
func (e *UnfinishedError) Error() string {
	s := fmt.Sprintf("%s: event %d of app context %q is not done", e.Err, e.Ref.Seq, e.Ref.AppContextID)
	if e.Status != "" {
		s = fmt.Sprintf("%s: %s of app context %q (event %d) is %s", e.Err, e.Event, e.Ref.AppContextID, e.Ref.Seq,
			e.Status)
	}
	if e.Rollout != "" {
		s += "; " + e.Rollout
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

// unfinishedGrace is the time for which Wait still reads the reasons after ctx has ended.
const unfinishedGrace = time.Second

// unfinished returns the error of Wait for an event that was not finished when ctx ended with err.
// The status may be nil.
func (s *Status) unfinished(ref EventRef, err error) *UnfinishedError {
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

// terminal returns an error of a cluster for which a retry does not help.
func terminal(format string, args ...any) error {
	return &connector.Error{Class: connector.ErrTerminal, Err: fmt.Errorf(format, args...)}
}

// unreachable returns an error of a cluster that does not answer.
func unreachable(format string, args ...any) error {
	return &connector.Error{Class: connector.ErrUnreachable, Err: fmt.Errorf(format, args...)}
}

// invalid returns an ErrInvalidInput with its cause.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalidInput, fmt.Errorf(format, args...))
}

// invalidOption returns the error for a field of Options.
func invalidOption(name, format string, args ...any) error {
	return invalid("Options."+name+": "+format, args...)
}

func notFound(id string) error { return fmt.Errorf("app context %q: %w", id, ErrNotFound) }
