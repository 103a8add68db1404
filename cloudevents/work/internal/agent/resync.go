// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// resync sends all sources the list of the agent's works. An empty list requests all works.
func (a *Agent) resync() {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.resyncLocked()
}

func (a *Agent) resyncLocked() {
	a.asks.Add(1)
	a.expireTombstonesLocked(a.options.Clock.Now())
	a.metrics.ResyncBeganLocked()
	a.findRoomLocked()
	if a.traits.Bundle && a.options.Sources != nil {
		for _, name := range a.options.Sources {
			entries := a.sourceLocked(name).entries(nil, codec.Part{})
			a.sendList(engine.LaneControl, &codec.SpecResync{Header: codec.Header{Source: name}, Entries: entries})
		}
		a.beginSyncLocked("")
		return
	}
	id := uuid.NewString()
	a.beginSyncLocked(id)
	var entries []codec.SpecEntry
	for _, s := range a.sources {
		entries = s.entries(entries, codec.Part{})
	}
	a.sendList(engine.LaneControl, &codec.SpecResync{
		Header: codec.Header{ResyncID: id}, Broadcast: true, Entries: entries,
	})
}

// entries adds the works of a source that exist here and are in a part to a list.
func (s *agentSource) entries(list []codec.SpecEntry, p codec.Part) []codec.SpecEntry {
	if p.IsZero() {
		list = slices.Grow(list, len(s.works))
	}
	for _, w := range s.works {
		if w.State != protocol.Tombstone && peer.InPart(w.id, p) {
			list = append(list, w.entry())
		}
	}
	return list
}

// entry describes the version of a work that the agent has received. During the cleanup of an
// incarnation, this is the next incarnation, if there is one: it has no status yet.
func (w *agentWork) entry() codec.SpecEntry {
	w.healLocked(peer.BoundsOf(w.agent.traits, w.agent.options.Clock))
	e := codec.SpecEntry{ResourceID: w.id, Version: w.Version, UID: w.UID, Source: w.source.name, SequenceID: w.Seq}
	if w.State == protocol.Deleting && w.Next != nil {
		e.Version, e.UID, e.SequenceID = w.Next.Version, w.Next.UID, 0
	}
	if w.source.refused[w] { // not 0: a source without the work would not delete it
		e.Version = max(e.Version-1, 0)
	}
	return e
}

// sendList queues a list, in chunks. A list in Control without a target source requests all works.
func (a *Agent) sendList(lane engine.Lane, r *codec.SpecResync) {
	r.ID = a.ids.Next()
	r.Time = a.options.Clock.Now().UTC()
	a.metrics.CountListed(peer.Sent, len(r.Entries))
	r.Cluster, r.Agent, r.AgentSession = a.options.ClusterName, a.options.AgentID, a.session
	if a.traits.Bundle { // a source would treat each chunk as a complete list
		a.enqueueList(lane, r)
		return
	}
	for _, chunk := range codec.SplitSpecResync(r, peer.ChunkSize(a.engine)) {
		a.enqueueList(lane, chunk)
	}
}

func (a *Agent) enqueueList(lane engine.Lane, r *codec.SpecResync) {
	m := peer.Item{Profile: a.options.Profile, Content: r}
	if lane == engine.LaneControl && r.TargetSource == "" {
		a.engine.Enqueue(lane, peer.NewRequirement(m, &a.asks))
		return
	}
	a.enqueue(lane, r.TargetSource, m, listSize(len(r.Entries)))
}

func listSize(entries int) int64 { return peer.ListCost + peer.EntryCost*int64(entries) }

// enqueue queues a message for a source, and charges the source for it until it is published.
func (a *Agent) enqueue(lane engine.Lane, source string, m peer.Item, size int64) {
	s := a.sources[source]
	if s == nil {
		a.engine.Enqueue(lane, &m)
		return
	}
	a.engine.Enqueue(lane, &charged{m, &s.account, s.account.Set(0, size)})
}

// charged is a message that a peer has requested. The peer is charged for it while it is queued.
type charged struct {
	peer.Item
	account *peer.Account
	size    int64
}

func (c *charged) Settled(error) { c.size = c.account.Set(c.size, 0) }

// onHashesLocked handles a source's request for statuses, or its end marker.
func (a *Agent) onHashesLocked(m *codec.StatusResync) error {
	a.metrics.CountListed(peer.Received, len(m.Entries))
	s := a.sources[m.Source]
	switch {
	case s != nil:
	case m.Scope == codec.ScopeListed && len(m.Entries) == 0 && m.Chunk.Count > 0: // the answer itself was lost
		var err error
		if s, err = a.sourceOf(m.Source); err != nil {
			return err
		}
	default: // the agent has no works of that source, and needs no record
		s = &agentSource{name: m.Source, account: peer.Account{Budget: a.budget}}
	}
	if size := listSize(len(s.works)); !s.account.HasRoom(size) {
		return peer.Unusable(peer.RefusedBudget, "send an answer of %d bytes to source %s: %w",
			size, s.name, s.account.ErrFull())
	}
	s.dialect = peer.DialectOf(m.ResyncID != "" || m.Scope == codec.ScopeDigest)
	if a.traits.Bundle {
		a.onBundleHashes(s, m)
		return nil
	}
	switch {
	case m.Scope == codec.ScopeDigest:
		a.sendDigest(s, m.Part.Buckets)
		return nil
	case m.Scope == codec.ScopeListed && len(m.Entries) == 0:
		if answer := a.answerFrom(m.Source, m.ResyncID); answer != nil {
			answer.expected = m.Chunk.Count
			a.progressLocked(m.Source, m.ResyncID, false)
		}
		return nil
	case m.Scope == codec.ScopeAll && len(m.Entries) == 0:
		for _, w := range s.works {
			if w.State != protocol.Tombstone {
				a.reply(w, m.ResyncID)
			}
		}
	default:
		a.compare(s, m)
	}
	if m.Scope != codec.ScopeListed {
		a.answerWithList(s, m)
	}
	return nil
}

// compare sends the status of each listed work that has another status here.
func (a *Agent) compare(s *agentSource, m *codec.StatusResync) {
	for i := range m.Entries {
		e := &m.Entries[i]
		w := s.works[e.ResourceID]
		if w == nil {
			continue
		}
		if err := a.check(w, e.ResourceID, peer.Numbers{Seq: e.StatusSeq}); err != nil {
			a.refuseLocked("", err, peer.RefusalReason(err), 1)
			continue
		}
		hash, err := w.statusHash()
		if err != nil {
			a.logger.Error(err, "Failed to hash a status", "work", w.Name)
			continue
		}
		entry := protocol.HashEntry{UID: string(e.UID), Hash: e.Hash, StatusSeq: e.StatusSeq}
		act := protocol.OnHash(stateOf(w), entry, hash)
		w.statusAccepted(e.StatusSeq)
		switch act {
		case protocol.PublishStatus, protocol.RepeatGone:
			w.advance()
			a.reply(w, m.ResyncID)
		case protocol.Answer:
			a.reply(w, m.ResyncID)
		}
	}
}

// answerWithList sends a source the list of its works, once for each of its requests. A source that
// requests only lists gets no answer if the list is empty, which is so for most clusters. But an
// agent in its initial sync answers, because it waits for that source.
func (a *Agent) answerWithList(s *agentSource, m *codec.StatusResync) {
	if m.ResyncID != "" && m.ResyncID == s.answered {
		return
	}
	entries := s.entries(nil, m.Part)
	waits := a.cache.Held() && !a.sync.answers[s.name].complete()
	if m.Scope == codec.ScopeLists && len(entries) == 0 && !waits && m.Part.IsZero() {
		return
	}
	s.answered = m.ResyncID
	r := &codec.SpecResync{
		Header:       codec.Header{Source: s.name, ResyncID: uuid.NewString()},
		TargetSource: s.name,
		Part:         m.Part,
		Entries:      entries,
	}
	if m.ResyncID == "" {
		// A source with only the enhancement reads the shared topic, and has no store if it requests
		// everything: an empty list makes it send all its works.
		r.Broadcast = true
		if len(m.Entries) == 0 {
			r.Entries = nil
		}
	}
	if waits && m.Part.IsZero() { // the source was offline during the request to all sources
		a.awaitLocked(s.name, newSyncAnswer(r.ResyncID, a.options.Clock.Now()))
	}
	a.sendList(engine.LaneBulk, r)
}

// reply queues one status of an answer. If one is queued already, it does nothing: the status is
// read when it is sent.
func (a *Agent) reply(w *agentWork, resyncID string) {
	if !w.answering.Swap(true) {
		a.engine.Enqueue(engine.LaneBulk, &statusAnswer{work: w, resyncID: resyncID})
	}
}

// statusAnswer is one status in an answer.
type statusAnswer struct {
	work     *agentWork
	resyncID string
	begun    bool // Message or Settled was called
}

func (s *statusAnswer) Message() (cloudevents.Message, error) {
	s.begin()
	m, err := s.work.message(s.resyncID, codec.ActionAnswer)
	if m.Event != nil {
		s.work.agent.metrics.CountAnswer(peer.Sent)
	}
	return m, err
}

// Settled is called without Message if the connection ended first.
func (s *statusAnswer) Settled(error) { s.begin() }

func (s *statusAnswer) begin() {
	if !s.begun {
		s.begun = true
		s.work.answering.Store(false)
	}
}
