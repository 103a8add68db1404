// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

const (
	// mostGathered is the number of confirmations that are sent at once: a source that repairs a
	// loss waits for them.
	mostGathered = 64
	// confirmDelay is how long an agent waits for a status to confirm a version. Then it sends a
	// confirmation. The delay is less than the source's resendAfter.
	confirmDelay = 4 * time.Second
	// confirmBatch rounds confirmDelay up: the confirmations of a busy agent share a message.
	confirmBatch = time.Second
	// digestInterval is the time between two digests to a source.
	digestInterval = time.Minute
)

// requests collects the requests, confirmations and digests that the agent must send.
type requests struct {
	*shared
	schedule *schedule
	records  *records
	answers  *answers

	// The agent's mutex guards the following fields.
	gathered int          // number of confirmations
	recent   []recentSpec // in the order of their due times
	digestAt time.Time    // zero before the first connection
}

// recentSpec is a work with a version that no status has confirmed yet.
type recentSpec struct {
	work *agentWork
	due  time.Time
}

// run sends due requests, confirmations and digests until ctx ends.
func (q *requests) run(ctx context.Context) {
	ready := q.engine.Ready()
	for {
		timer := q.options.Clock.NewTimer(q.sendDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-ready:
			ready = nil
			q.answers.start()
		case <-q.schedule.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// sendDue sends the due messages, and returns the time until the next ones are due.
func (q *requests) sendDue() time.Duration {
	q.cache.Lock()
	defer q.cache.Unlock()
	now := q.options.Clock.Now()
	q.confirmRecentLocked(now)
	if due := q.schedule.askDue; !due.IsZero() && peer.IsDue(due, now, askDelay) {
		q.sendLocked()
	}
	next := now.Add(digestInterval)
	if q.engine.Connected() {
		q.sendDigestsLocked(now)
		next = peer.Earliest(next, q.answers.pursueLocked(now), q.digestAt)
	}
	next = peer.Earliest(next, q.schedule.askDue)
	if len(q.recent) > 0 {
		next = peer.Earliest(next, q.recent[0].due)
	}
	q.schedule.due = next
	return next.Sub(now)
}

// receivedLocked schedules the confirmation of a work's version to its source. The version of a new
// write waits for a status, which usually confirms it. With soon, it does not wait: it is from an
// answer, or was sent again.
func (q *requests) receivedLocked(w *agentWork, soon bool) {
	w.unconfirmed = true
	if soon {
		q.confirmLocked(w)
		return
	}
	if !w.recent {
		w.recent = true
		due := q.options.Clock.Now().Add(confirmDelay)
		q.recent = append(q.recent, recentSpec{w, due})
		q.schedule.wakeLocked(due)
	}
}

func (q *requests) confirmLocked(w *agentWork) {
	if _, ok := w.source.confirm[w]; ok {
		return
	}
	w.source.confirm[w] = struct{}{}
	delay := askDelay
	if q.gathered++; q.gathered >= mostGathered {
		delay = 0
	}
	q.schedule.gatherLocked(delay)
}

// confirmRecentLocked confirms the versions that no status has confirmed in time.
func (q *requests) confirmRecentLocked(now time.Time) {
	recent := q.recent
	if len(recent) == 0 || !peer.IsDue(recent[0].due, now, confirmDelay) {
		return
	}
	n := 0
	for ; n < len(recent) && peer.IsDue(recent[n].due, now.Add(confirmBatch), confirmDelay); n++ {
		w := recent[n].work
		w.recent = false
		if w.awaitsConfirmationLocked() {
			q.confirmLocked(w)
		}
		recent[n] = recentSpec{}
	}
	if q.recent = recent[n:]; n == len(recent) {
		q.recent = nil
	}
}

// sendLocked sends each source a list of requested works, refused specs that fit now, and
// confirmations.
func (q *requests) sendLocked() {
	q.schedule.askDue, q.gathered = time.Time{}, 0
	q.records.findRoomLocked()
	for _, s := range q.records.sources {
		if entries := s.takeRequestsLocked(); len(entries) > 0 {
			s.sendList(engine.LaneControl, &codec.SpecResync{
				Header: codec.Header{ResyncID: uuid.NewString()}, Scope: codec.ScopeListed, Entries: entries,
			})
		}
	}
}

// sendDigestsLocked sends a digest to each source that supports digests, once a minute.
func (q *requests) sendDigestsLocked(now time.Time) {
	if q.digestAt.IsZero() || !peer.IsDue(q.digestAt, now, digestInterval) {
		return
	}
	q.records.expireTombstonesLocked(now)
	q.answers.forgetUnusedLocked()
	q.digestAt = q.digestAt.Add(digestInterval)
	// no connection for a while, or the clock was set
	if next := q.digestAt.Sub(now); next < 0 || next > digestInterval {
		q.digestAt = now.Add(digestInterval)
	}
	q.records.findRoomLocked()
	for _, s := range q.records.sources {
		if s.dialect == peer.DialectExtended {
			s.sendDigestLocked(1)
		}
	}
}

// startDigestsLocked schedules the digests at the first connection. Each agent has its own offset
// within the interval.
func (q *requests) startDigestsLocked() {
	if q.traits.Bundle || !q.digestAt.IsZero() {
		return
	}
	share := time.Duration(xxhash.Sum64String(q.options.ClusterName+"/"+q.options.AgentID) % uint64(digestInterval))
	q.digestAt = q.options.Clock.Now().Add(share)
}
