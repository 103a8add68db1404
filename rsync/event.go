// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// EventRef names a queued event by the context of its queue and its number in the queue, from 1.
type EventRef struct {
	AppContextID string `json:"id"`
	Seq          uint64 `json:"seq"`
}

// ElementStatus is the status of an event in its queue.
type ElementStatus string

// The statuses of elements. Done, Error and Skip are final.
const (
	Pending    ElementStatus = "Pending"
	InProgress ElementStatus = "InProgress"
	Done       ElementStatus = "Done"
	Error      ElementStatus = "Error"
	Skip       ElementStatus = "Skip"
)

// Final reports whether the status does not change any more.
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
	// Next is the UpdateDelete that a finished Update has queued. If it has queued several, Next of
	// each one is the following one.
	Next *EventRef `json:"next,omitempty"`
	// Rollout is whether the event is a rollout: see Engine.RolloutStatus. Rollback is the event
	// that Rollout.RollbackOnFailure has queued.
	Rollout  bool      `json:"rollout,omitempty"`
	Rollback *EventRef `json:"rollback,omitempty"`
	// IdempotencyKey is the key of the call, if it had one.
	IdempotencyKey string    `json:"idempotencyKey,omitempty"`
	Queued         time.Time `json:"queued"`
	Finished       time.Time `json:"finished,omitzero"`
}

func (e *Element) call() string {
	if e.UCID != "" {
		return fmt.Sprintf("%s from %q", e.Event, e.UCID)
	}
	return string(e.Event)
}

// Phase is the progress of an app on a cluster in an event.
type Phase string

// The phases. An app that has not begun has an empty phase. All but Progressing and Retrying are
// final.
const (
	PhaseProgressing Phase = "Progressing" // it has begun; only rollouts record this phase
	PhaseRetrying    Phase = "Retrying"    // it waits for the cluster or for objects: see the reason
	PhaseDone        Phase = "Done"
	PhaseSkipped     Phase = "Skipped" // the event has nothing to do there
	PhaseFailed      Phase = "Failed"
)

func (p Phase) final() bool { return p == PhaseDone || p == PhaseSkipped || p == PhaseFailed }

// ClusterStatus is the status of an app on a cluster in the last event that included the app there.
type ClusterStatus struct {
	App     string               `json:"app"`
	Cluster appcontext.ClusterID `json:"cluster"`
	Seq     uint64               `json:"seq"`
	Event   EventType            `json:"event"`
	Phase   Phase                `json:"phase"`
	Reason  Reason               `json:"reason,omitempty"`
	Message string               `json:"message,omitempty"`
	Time    time.Time            `json:"time"`
	// Begun is when a rollout began on the cluster.
	Begun time.Time `json:"begun,omitzero"`
	// Resources has the states that a Read found, up to about 500 KiB. ResourcesOmitted counts
	// further states. Ready resources are omitted first.
	Resources        []connector.State `json:"resources,omitempty"`
	ResourcesOmitted int               `json:"resourcesOmitted,omitempty"`
}

// Status is the status of a context, with its queue and its clusters.
type Status struct {
	ID    string
	State State
	// Stopped is true from Stop to ClearStop.
	Stopped bool
	// Queue has all unfinished elements and the last Options.HistoryLimit finished ones.
	Queue []Element
	// Clusters has a status for each app on each cluster that an event has included.
	Clusters []ClusterStatus
	// Observed has an Observation for each app on each cluster that engines have read since the
	// context became Instantiated: see Options.Observe. It is empty in other states.
	Observed []Observation
	// Detached are the clusters that are detached from the context, in order: see Engine.Detach.
	Detached []appcontext.ClusterID
	// Transitions is the number of changes of the state since the context was created.
	Transitions uint64
	// Revision is the revision of the store at the read. Continue with Watch from Revision+1.
	Revision int64
}

// Element returns the element with that number, or nil.
func (s *Status) Element(seq uint64) *Element {
	return find(s.Queue, func(e *Element) bool { return e.Seq == seq })
}

// Cluster returns the status of an app on a cluster, or nil.
func (s *Status) Cluster(app string, cluster appcontext.ClusterID) *ClusterStatus {
	return find(s.Clusters, func(c *ClusterStatus) bool { return c.App == app && c.Cluster == cluster })
}

// Observation returns the observation of an app on a cluster, or nil.
func (s *Status) Observation(app string, cluster appcontext.ClusterID) *Observation {
	return find(s.Observed, func(o *Observation) bool { return o.App == app && o.Cluster == cluster })
}

func find[T any](list []T, match func(*T) bool) *T {
	for i := range list {
		if match(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// Summary is a context in a list.
type Summary struct {
	ID    string `json:"id"`
	State State  `json:"state"`
}

// CallOption is an option of one call that queues an event: see [IdempotencyKey] and [WithRollout].
// A zero field has no effect. If several options set a field, the last one wins.
type CallOption struct {
	IdempotencyKey string
	Rollout        *Rollout
}

// IdempotencyKey makes calls safe to repeat. A call with the key of an earlier call on the same
// context queues nothing and returns the earlier event, while the history has it. Use it to repeat
// a call after an error that leaves open whether the event was queued. A call for another event,
// for an Update from another context, or with another rollout needs another key: otherwise it
// returns ErrInvalidInput. Update and Rollback are the same event.
func IdempotencyKey(key string) CallOption { return CallOption{IdempotencyKey: key} }

func callOf(options []CallOption) CallOption {
	var out CallOption
	for _, o := range options {
		out.IdempotencyKey = cmp.Or(o.IdempotencyKey, out.IdempotencyKey)
		out.Rollout = cmp.Or(o.Rollout, out.Rollout)
	}
	return out
}
