// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// resync sends the sources lists of the agent's works, and answers their requests for statuses.
type resync struct {
	*shared
	records  *records
	answers  *answers
	requests *requests
	asks     atomic.Int64 // number of requests to all sources
}

// all sends all sources the list of the agent's works. An empty list requests all works.
func (rs *resync) all() {
	rs.cache.Lock()
	defer rs.cache.Unlock()
	rs.allLocked()
}

func (rs *resync) allLocked() {
	rs.asks.Add(1)
	rs.records.expireTombstonesLocked(rs.options.Clock.Now())
	rs.metrics.ResyncBeganLocked()
	rs.records.findRoomLocked()
	id := ""
	if rs.traits.Bundle && rs.options.Sources != nil {
		for _, name := range rs.options.Sources {
			rs.require(&codec.SpecResync{Entries: rs.records.sourceLocked(name).entriesLocked(nil, codec.Part{})}, name)
		}
	} else {
		id = uuid.NewString()
		r := &codec.SpecResync{Header: codec.Header{ResyncID: id}, Broadcast: true}
		for _, s := range rs.records.sources {
			r.Entries = s.entriesLocked(r.Entries, codec.Part{})
		}
		rs.require(r, "")
	}
	rs.answers.beginLocked(id)
	rs.requests.startDigestsLocked()
}

// require queues a list that requests all works of a source, or of all sources with "". It is
// published until the broker accepts it or a later list replaces it.
func (rs *resync) require(r *codec.SpecResync, source string) {
	for _, chunk := range rs.chunksOf(r, source) {
		item := peer.Item{Profile: rs.options.Profile, Content: chunk}
		rs.engine.Enqueue(engine.LaneControl, peer.NewRequirement(item, &rs.asks))
	}
}

// atInterval compares all works with the sources that support no digests; with ResyncAll, with all.
func (rs *resync) atInterval() {
	rs.cache.Lock()
	defer rs.cache.Unlock()
	if rs.traits.Bundle || rs.options.ResyncAll {
		rs.allLocked()
		return
	}
	rs.records.findRoomLocked()
	for _, s := range rs.records.sources {
		if s.dialect == peer.DialectEnhancement {
			s.sendList(engine.LaneBulk, &codec.SpecResync{Broadcast: true, Entries: s.entriesLocked(nil, codec.Part{})})
		}
	}
}

// onHashesLocked handles a source's request for statuses, or its end marker.
func (rs *resync) onHashesLocked(m *codec.StatusResync) error {
	rs.metrics.CountListed(peer.Received, len(m.Entries))
	s := rs.records.sources[m.Source]
	switch {
	case s != nil:
	case m.Scope == codec.ScopeListed && len(m.Entries) == 0 && m.Chunk.Count > 0: // the answer itself was lost
		var err error
		if s, err = rs.records.sourceOfLocked(m.Source); err != nil {
			return err
		}
	default: // the agent has no works of that source, and needs no record
		s = rs.records.unrecorded(m.Source)
	}
	if size := listSize(len(s.works)); !s.account.HasRoom(size) {
		return peer.Unusable(peer.RefusedBudget, "send an answer of %d bytes to source %s: %w",
			size, s.name, s.account.ErrFull())
	}
	s.dialect = peer.DialectOf(!rs.traits.Bundle && m.ResyncID != "" || m.Scope == codec.ScopeDigest)
	switch {
	case rs.traits.Bundle:
		rs.onBundleHashesLocked(s, m)
		return nil
	case m.Scope == codec.ScopeDigest:
		s.sendDigestLocked(m.Part.Buckets)
		return nil
	case m.Scope == codec.ScopeListed && len(m.Entries) == 0:
		if answer := rs.answers.fromLocked(m.Source, m.ResyncID); answer != nil {
			answer.expected = m.Chunk.Count
			rs.answers.progressLocked(m.Source, m.ResyncID, false)
		}
		return nil
	case m.Scope == codec.ScopeAll && len(m.Entries) == 0:
		for _, w := range s.works {
			if w.State != protocol.Tombstone {
				rs.reply(w, m.ResyncID)
			}
		}
	default:
		rs.compareLocked(s, m)
	}
	if m.Scope != codec.ScopeListed {
		rs.answerWithListLocked(s, m)
	}
	return nil
}

// compareLocked sends the status of each listed work that has another status here.
func (rs *resync) compareLocked(s *agentSource, m *codec.StatusResync) {
	b := rs.bounds()
	for i := range m.Entries {
		e := &m.Entries[i]
		w := s.works[e.ResourceID]
		if w == nil {
			continue
		}
		w.healLocked(b)
		if err := (peer.Numbers{Seq: e.StatusSeq}).Check(b, b.Own, e.ResourceID); err != nil {
			rs.refuseLocked("", err, peer.RefusalReason(err), 1)
			continue
		}
		hash, err := w.statusHashLocked()
		if err != nil {
			rs.logger.Error(err, "Failed to hash a status", "work", w.Name)
			continue
		}
		entry := protocol.HashEntry{UID: string(e.UID), Hash: e.Hash, StatusSeq: e.StatusSeq}
		act := protocol.OnHash(stateOf(w), entry, hash)
		w.statusAcceptedLocked(e.StatusSeq)
		switch act {
		case protocol.PublishStatus, protocol.RepeatGone:
			w.advanceLocked()
			rs.reply(w, m.ResyncID)
		case protocol.Answer:
			rs.reply(w, m.ResyncID)
		}
	}
}

// answerWithListLocked sends a source the list of its works, once for each of its requests. A
// source that requests only lists gets no answer if the list is empty, which is so for most
// clusters. But an agent in its initial sync answers, because it waits for that source.
func (rs *resync) answerWithListLocked(s *agentSource, m *codec.StatusResync) {
	if m.ResyncID != "" && m.ResyncID == s.answered {
		return
	}
	entries := s.entriesLocked(nil, m.Part)
	waits := rs.cache.Held() && !rs.answers.bySource[s.name].complete()
	if m.Scope == codec.ScopeLists && len(entries) == 0 && !waits && m.Part.IsZero() {
		return
	}
	s.answered = m.ResyncID
	r := &codec.SpecResync{Header: codec.Header{ResyncID: uuid.NewString()}, Part: m.Part, Entries: entries}
	if m.ResyncID == "" {
		// A source with only the enhancement reads the shared topic, and has no store if it
		// requests everything: an empty list makes it send all its works.
		r.Broadcast = true
		if len(m.Entries) == 0 {
			r.Entries = nil
		}
	}
	if waits && m.Part.IsZero() { // the source was offline during the request to all sources
		rs.answers.awaitLocked(s.name, newAnswer(r.ResyncID, rs.options.Clock.Now()))
	}
	s.sendList(engine.LaneBulk, r)
}

// onBundleHashesLocked answers a source's request for statuses in the profile ManifestBundle. It
// sends the statuses that the source lacks, and a list. The list makes the source send the works
// that it wrote while either side was away.
//
// The list has only the works in the request. The source deletes unknown works, and right after a
// restart these may be works that its owner is about to create again. A chunk is answered by the
// same chunk of the list.
func (rs *resync) onBundleHashesLocked(s *agentSource, m *codec.StatusResync) {
	if len(m.Entries) == 0 {
		for _, w := range s.works {
			if w.State != protocol.Tombstone {
				w.advanceLocked()
				rs.reply(w, "")
			}
		}
	} else {
		rs.compareLocked(s, m)
	}
	entries := make([]codec.SpecEntry, 0, len(m.Entries))
	for i := range m.Entries {
		if w := s.works[m.Entries[i].ResourceID]; w != nil && w.State != protocol.Tombstone {
			entries = append(entries, w.entryLocked())
		}
	}
	s.sendList(engine.LaneBulk, &codec.SpecResync{
		Header: codec.Header{ResyncID: m.ResyncID}, Chunk: m.Chunk, Entries: entries,
	})
}

// reply queues one status of an answer. If one is queued already, it does nothing: the status is
// read when it is sent.
func (rs *resync) reply(w *agentWork, resyncID string) {
	if !w.answering.Swap(true) {
		rs.engine.Enqueue(engine.LaneBulk, &statusAnswer{work: w, resyncID: resyncID})
	}
}
