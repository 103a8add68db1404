// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/wait"
)

// shared has the fields that all parts of an agent use. The mutex of the cache is the agent's
// mutex: it guards the records and the state of all parts.
type shared struct {
	options  Options
	traits   codec.Traits
	session  string // of this process
	ids      *peer.IDSequence
	cache    *cache.Cache[*agentWork]
	engine   *engine.Engine
	metrics  *peer.Metrics // nil without a registerer
	refusals *quietlog.Log

	// The agent's mutex guards the following fields.
	started bool
	logger  klog.Logger
}

// serves reports whether the options name the source, or name no sources.
func (a *shared) serves(source string) bool {
	return a.options.Sources == nil || slices.Contains(a.options.Sources, source)
}

// header returns the header of the next event to a source.
func (a *shared) header(source string) codec.Header {
	return codec.Header{
		ID: a.ids.Next(), Time: a.options.Clock.Now().UTC(), Source: source,
		Cluster: a.options.ClusterName, Agent: a.options.AgentID,
	}
}

// bounds returns the greatest plausible numbers in events.
func (a *shared) bounds() protocol.Bounds { return peer.BoundsOf(a.traits, a.options.Clock) }

// refuse counts and logs a message that cannot be used.
func (a *shared) refuse(topic string, err error) {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.refuseLocked(topic, err, peer.RefusalReason(err), 1)
}

func (a *shared) refuseLocked(topic string, err error, reason string, n int) {
	a.metrics.CountRefused(reason, n)
	a.refusals.Error(a.logger, err, reason, topic)
}

// chunksOf completes a list to a source, or to all sources with "", and splits it.
func (a *shared) chunksOf(r *codec.SpecResync, source string) []*codec.SpecResync {
	id := r.ResyncID
	r.Header = a.header(source)
	r.ResyncID, r.AgentSession = id, a.session
	a.metrics.CountListed(peer.Sent, len(r.Entries))
	limit := peer.ChunkSize(a.engine)
	if a.traits.Bundle {
		// A source of OCM treats each chunk as a complete list, and sends the works of the other chunks
		// again. So only the limit of the broker divides a list.
		limit, r.ResyncID = peer.LargestList(a.engine), cmp.Or(id, uuid.NewString())
	}
	return codec.SplitSpecResync(r, limit)
}

// askDelay is how long requests for unknown works and confirmations are collected before they are
// sent.
const askDelay = 100 * time.Millisecond

// schedule has the times at which [requests] must act.
type schedule struct {
	*shared
	// The agent's mutex guards the following fields.
	due    time.Time   // when run wakes up
	askDue time.Time   // zero: no request or confirmation is pending
	wake   wait.Signal // something is due earlier
}

// wakeLocked makes requests.run wake up no later than at a time.
func (s *schedule) wakeLocked(at time.Time) {
	if at.Before(s.due) {
		s.due = at
		s.wake.Set()
	}
}

// gatherLocked schedules the collected requests and confirmations after a delay.
func (s *schedule) gatherLocked(delay time.Duration) {
	if due := s.options.Clock.Now().Add(delay); s.askDue.IsZero() || due.Before(s.askDue) {
		s.askDue = due
		s.wakeLocked(due)
	}
}
