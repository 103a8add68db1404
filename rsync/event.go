// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// EventRef names a queued event: the context whose queue it is in, and its place there, from 1.
type EventRef struct {
	AppContextID string `json:"id"`
	Seq          uint64 `json:"seq"`
}

// ElementStatus is how far an event is.
type ElementStatus string

// The statuses of elements. Done, Error and Skip are final.
const (
	Pending    ElementStatus = "Pending"
	InProgress ElementStatus = "InProgress"
	Done       ElementStatus = "Done"
	Error      ElementStatus = "Error"
	Skip       ElementStatus = "Skip"
)

// Final reports whether nothing more becomes of it.
func (s ElementStatus) Final() bool { return s == Done || s == Error || s == Skip }

// Element is an event in the queue of a context.
type Element struct {
	Seq   uint64    `json:"seq"`
	Event EventType `json:"event"`
	// UCID is the other context of an Update or an UpdateDelete.
	UCID    string        `json:"uCID,omitempty"`
	Status  ElementStatus `json:"status"`
	Reason  Reason        `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	// Next is the UpdateDelete that follows on an Update that is done.
	Next *EventRef `json:"next,omitempty"`
	// Rollout is whether the event is a rollout: see Engine.RolloutStatus. Rollback is the event that
	// Rollout.RollbackOnFailure has queued.
	Rollout  bool      `json:"rollout,omitempty"`
	Rollback *EventRef `json:"rollback,omitempty"`
	// IdempotencyKey is the caller's.
	IdempotencyKey string    `json:"idempotencyKey,omitempty"`
	Queued         time.Time `json:"queued"`
	Finished       time.Time `json:"finished,omitzero"`
}

// call says what was asked for.
func (e *Element) call() string {
	if e.UCID != "" {
		return fmt.Sprintf("%s from %q", e.Event, e.UCID)
	}
	return string(e.Event)
}

// Phase is how far an app on a cluster is in an event.
type Phase string

// The phases. What has not begun has none. All but Progressing and Retrying are final.
const (
	PhaseProgressing Phase = "Progressing" // it has begun, which only rollouts record
	PhaseRetrying    Phase = "Retrying"    // it waits for the cluster, or for objects; the reason says why
	PhaseDone        Phase = "Done"
	PhaseSkipped     Phase = "Skipped" // the event has nothing to do there
	PhaseFailed      Phase = "Failed"
)

func (p Phase) final() bool { return p == PhaseDone || p == PhaseSkipped || p == PhaseFailed }

// ClusterStatus is what became of an app on a cluster in the last event that was about it.
type ClusterStatus struct {
	App     string               `json:"app"`
	Cluster appcontext.ClusterID `json:"cluster"`
	Seq     uint64               `json:"seq"`
	Event   EventType            `json:"event"`
	Phase   Phase                `json:"phase"`
	Reason  Reason               `json:"reason,omitempty"`
	Message string               `json:"message,omitempty"`
	Time    time.Time            `json:"time"`
	// Begun is when a rollout began with the cluster.
	Begun time.Time `json:"begun,omitzero"`
	// Resources is what a Read found. Some 500 KiB of it are kept; ResourcesOmitted counts the states that did not fit, which are
	// those of ready resources first.
	Resources        []connector.State `json:"resources,omitempty"`
	ResourcesOmitted int               `json:"resourcesOmitted,omitempty"`
}

// Status is all that is known of a context.
type Status struct {
	ID    string
	State State
	// Stopped is whether Stop was called, and ClearStop was not.
	Stopped bool
	// Queue has the elements that are not done, and of those that are the last Options.HistoryLimit.
	Queue []Element
	// Clusters has a status for each app on each cluster that an event was about.
	Clusters []ClusterStatus
	// Observed has an Observation for each app on each cluster that engines have read since the
	// context became Instantiated: see Options.Observe. It is empty in other states.
	Observed []Observation
	// Detached are the clusters that are detached from the context, in order: see Engine.Detach.
	Detached []appcontext.ClusterID
	// Transitions is how often the state was changed since the context was created.
	Transitions uint64
	// Revision is that of the store when it was read: Watch goes on from the next one.
	Revision int64
}

// Element returns the element with that number, or nil.
func (s *Status) Element(seq uint64) *Element {
	for i := range s.Queue {
		if s.Queue[i].Seq == seq {
			return &s.Queue[i]
		}
	}
	return nil
}

// Cluster returns the status of an app on a cluster, or nil.
func (s *Status) Cluster(app string, cluster appcontext.ClusterID) *ClusterStatus {
	for i := range s.Clusters {
		if s.Clusters[i].App == app && s.Clusters[i].Cluster == cluster {
			return &s.Clusters[i]
		}
	}
	return nil
}

// Observation returns the observation of an app on a cluster, or nil.
func (s *Status) Observation(app string, cluster appcontext.ClusterID) *Observation {
	for i := range s.Observed {
		if s.Observed[i].App == app && s.Observed[i].Cluster == cluster {
			return &s.Observed[i]
		}
	}
	return nil
}

// Summary is a context in a list.
type Summary struct {
	ID    string `json:"id"`
	State State  `json:"state"`
}

// CallOption is an option of one call that queues an event.
type CallOption struct {
	idempotencyKey string
	rollout        *Rollout
}

// IdempotencyKey makes a call that was made before, with the same key on the same context, return the event of that one
// instead of queueing another, as long as the history has it. Use it to call again after an error of which it is not known
// whether the event was queued. A call of another event, or of an Update from another context, must have another key: it returns
// ErrInvalidInput and queues nothing. Update and Rollback are the same event.
func IdempotencyKey(key string) CallOption { return CallOption{idempotencyKey: key} }

// IdempotencyKeyOf returns the key that options have, or "": for those who carry calls to an engine elsewhere.
func IdempotencyKeyOf(options ...CallOption) string {
	key := ""
	for _, o := range options {
		if o.idempotencyKey != "" {
			key = o.idempotencyKey
		}
	}
	return key
}

// RolloutOf returns the rollout that options have, or nil: for those who carry calls to an engine elsewhere.
func RolloutOf(options ...CallOption) *Rollout {
	var out *Rollout
	for _, o := range options {
		if o.rollout != nil {
			out = o.rollout
		}
	}
	return out
}
