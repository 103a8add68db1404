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
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// askDelay is how long requests for unknown works and confirmations are collected before they
	// are sent.
	askDelay = 100 * time.Millisecond
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

// ownRequests are the requests, confirmations and digests that an agent must send. The agent's
// mutex guards them.
type ownRequests struct {
	due      time.Time    // when runRequests wakes up
	askDue   time.Time    // zero: no request or confirmation is pending
	gathered int          // number of confirmations
	recent   []recentSpec // in the order of their due times
	digestAt time.Time    // zero before the first connection
	wake     wait.Signal  // something is due earlier
}

// recentSpec is a work with a version that no status has confirmed yet.
type recentSpec struct {
	work *agentWork
	due  time.Time
}

// runRequests sends due requests, confirmations and digests until ctx ends.
func (a *Agent) runRequests(ctx context.Context) {
	ready := a.engine.Ready()
	for {
		timer := a.options.Clock.NewTimer(a.sendDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-ready:
			ready = nil
			a.startSync()
		case <-a.own.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// sendDue sends the due messages, and returns the time until the next ones are due.
func (a *Agent) sendDue() time.Duration {
	a.cache.Lock()
	defer a.cache.Unlock()
	now := a.options.Clock.Now()
	a.confirmRecentLocked(now)
	if r := &a.own; !r.askDue.IsZero() && peer.IsDue(r.askDue, now, askDelay) {
		r.askDue, r.gathered = time.Time{}, 0
		a.sendAsks()
	}
	next := now.Add(digestInterval)
	if a.engine.Connected() {
		a.sendDigestsLocked(now)
		next = peer.Earliest(next, a.pursueLocked(now), a.own.digestAt)
	}
	next = peer.Earliest(next, a.own.askDue)
	if len(a.own.recent) > 0 {
		next = peer.Earliest(next, a.own.recent[0].due)
	}
	a.own.due = next
	return next.Sub(now)
}

// wakeLocked makes runRequests wake up no later than at a time.
func (a *Agent) wakeLocked(at time.Time) {
	if at.Before(a.own.due) {
		a.own.due = at
		a.own.wake.Set()
	}
}

// ask collects a request for a version of a work or a later one, which only its source can send.
func (a *Agent) ask(s *agentSource, id string, version int64) error {
	if _, ok := s.ask[id]; !ok {
		if !s.account.Charge(askSize(id)) {
			return peer.Unusable(peer.RefusedBudget, "request work %s from source %s: %w", id, s.name, s.account.ErrFull())
		}
		s.asked += askSize(id)
	}
	s.ask[id] = max(s.ask[id], version)
	a.gatherLocked(askDelay)
	return nil
}

func askSize(id string) int64 { return int64(peer.EntryCost + len(id)) }

// gatherLocked schedules the collected requests and confirmations after a delay.
func (a *Agent) gatherLocked(delay time.Duration) {
	if due := a.options.Clock.Now().Add(delay); a.own.askDue.IsZero() || due.Before(a.own.askDue) {
		a.own.askDue = due
		a.wakeLocked(due)
	}
}

// receivedLocked schedules the confirmation of a work's version to its source. The version of a new
// write waits for a status, which usually confirms it. With soon, it does not wait: it is from an
// answer, or was sent again.
func (a *Agent) receivedLocked(w *agentWork, soon bool) {
	w.unconfirmed = true
	if soon {
		a.confirmLocked(w)
		return
	}
	if !w.recent {
		w.recent = true
		due := a.options.Clock.Now().Add(confirmDelay)
		a.own.recent = append(a.own.recent, recentSpec{w, due})
		a.wakeLocked(due)
	}
}

func (a *Agent) confirmLocked(w *agentWork) {
	if _, ok := w.source.confirm[w]; ok {
		return
	}
	w.source.confirm[w] = struct{}{}
	delay := askDelay
	if a.own.gathered++; a.own.gathered >= mostGathered {
		delay = 0
	}
	a.gatherLocked(delay)
}

// confirmRecentLocked confirms the versions that no status has confirmed in time.
func (a *Agent) confirmRecentLocked(now time.Time) {
	recent := a.own.recent
	if len(recent) == 0 || !peer.IsDue(recent[0].due, now, confirmDelay) {
		return
	}
	n := 0
	for ; n < len(recent) && peer.IsDue(recent[n].due, now.Add(confirmBatch), confirmDelay); n++ {
		w := recent[n].work
		w.recent = false
		if w.unconfirmed && w.source.works[w.id] == w && w.State != protocol.Tombstone {
			a.confirmLocked(w)
		}
		recent[n] = recentSpec{}
	}
	if a.own.recent = recent[n:]; n == len(recent) {
		a.own.recent = nil
	}
}

// sendAsks sends each source a list of requested works, refused specs that fit now, and
// confirmations.
func (a *Agent) sendAsks() {
	a.findRoomLocked()
	for _, s := range a.sources {
		entries := make([]codec.SpecEntry, 0, len(s.ask)+len(s.confirm))
		for id, version := range s.ask {
			if w := s.works[id]; w == nil || w.lacks(version) {
				entries = append(entries, codec.SpecEntry{ResourceID: id, Source: s.name})
			} // otherwise an answer has arrived; if it is older than the version, its confirmation shows that
		}
		for w := range s.confirm {
			if w.unconfirmed && s.works[w.id] == w && w.State != protocol.Tombstone && w.saving == peer.Saved {
				w.unconfirmed = false
				entries = append(entries, w.entry())
			}
		}
		for w, fits := range s.refused {
			if fits && s.dialect == peer.DialectExtended { // others treat each list as complete: their next list has it
				entries = append(entries, w.entry())
			}
		}
		clear(s.ask)
		s.asked = s.account.Set(s.asked, 0)
		s.confirm = map[*agentWork]struct{}{}
		if len(entries) == 0 {
			continue
		}
		a.sendList(engine.LaneControl, &codec.SpecResync{
			Header:       codec.Header{Source: s.name, ResyncID: uuid.NewString()},
			TargetSource: s.name,
			Scope:        codec.ScopeListed,
			Entries:      entries,
		})
	}
}

// lacks reports whether a deleted work, or a work in deletion, is below a version.
func (w *agentWork) lacks(version int64) bool {
	switch w.State {
	case protocol.Tombstone:
		return w.Version < version
	case protocol.Deleting:
		return max(w.Version, w.entry().Version) < version
	}
	return false
}

// sendDigestsLocked sends a digest to each source that supports digests, once a minute.
func (a *Agent) sendDigestsLocked(now time.Time) {
	if a.own.digestAt.IsZero() || !peer.IsDue(a.own.digestAt, now, digestInterval) {
		return
	}
	a.expireTombstonesLocked(now)
	a.forgetUnused()
	a.own.digestAt = a.own.digestAt.Add(digestInterval)
	// no connection for a while, or the clock was set
	if next := a.own.digestAt.Sub(now); next < 0 || next > digestInterval {
		a.own.digestAt = now.Add(digestInterval)
	}
	a.findRoomLocked()
	for _, s := range a.sources {
		if s.dialect == peer.DialectExtended {
			a.sendDigest(s, 1)
		}
	}
}

// startDigestsLocked schedules the digests at the first connection. Each agent has its own offset
// within the interval.
func (a *Agent) startDigestsLocked() {
	if a.traits.Bundle || !a.own.digestAt.IsZero() {
		return
	}
	share := time.Duration(xxhash.Sum64String(a.options.ClusterName+"/"+a.options.AgentID) % uint64(digestInterval))
	a.own.digestAt = a.options.Clock.Now().Add(share)
}

func (a *Agent) sendDigest(s *agentSource, buckets int) {
	d := protocol.NewDigest(buckets)
	for _, w := range s.works {
		if w.State != protocol.Tombstone {
			e := w.entry()
			d.Add(e.ResourceID, protocol.Version{V: e.Version, UID: string(e.UID)}, e.SequenceID)
		}
	}
	header := codec.Header{ID: a.ids.Next(), Source: s.name, Cluster: a.options.ClusterName, Agent: a.options.AgentID}
	a.enqueue(engine.LaneControl, s.name, peer.Item{Profile: a.options.Profile, Content: &codec.Digest{
		Header: header, AgentSession: a.session, Works: d.Works, Sums: d.Sums,
	}}, peer.ListCost+8*int64(buckets))
}

// resyncPeers compares all works with the sources that support no digests; with ResyncAll, with
// all.
func (a *Agent) resyncPeers() {
	a.cache.Lock()
	defer a.cache.Unlock()
	if a.traits.Bundle || a.options.ResyncAll {
		a.resyncLocked()
		return
	}
	a.findRoomLocked()
	for _, s := range a.sources {
		if s.dialect == peer.DialectEnhancement {
			a.sendList(engine.LaneBulk, &codec.SpecResync{
				Header: codec.Header{Source: s.name}, TargetSource: s.name, Broadcast: true, Entries: s.entries(nil, codec.Part{}),
			})
		}
	}
}
