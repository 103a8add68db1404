// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// records has the agent's records of sources and works.
type records struct {
	*shared
	schedule *schedule
	journal  *journal.Journal // nil without a Store
	budget   *peer.Budget
	synced   chan struct{} // closed when the initial sync is over

	// The agent's mutex guards the following fields.
	sources    map[string]*agentSource
	covered    []string                   // sources from which an earlier process received all works
	waiting    map[string][]*agentWork    // by name: works blocked by another source's work
	tombstones []tombstone                // oldest first
	spans      map[*agentWork]func(error) // end the spans of publications
	names      peer.Account               // of the records of sources
	refused    int                        // number of works with refused specs
}

// agentSource is an agent's record of one source. Its account is charged for works, tombstones, the
// requests in ask, the events of an answer, and lists and digests until they are published, but not
// for statuses. The fixed cost of a work includes its entries in confirm, requests.recent,
// records.waiting and records.tombstones, and one answer in the outbox. records.names is charged
// for the record of the source and its entry in answers, peer.RequestQueue charges requests, and
// maxRivals limits presence.
type agentSource struct {
	records *records
	name    string
	works   map[string]*agentWork // by resource ID, tombstones included
	ask     map[string]int64      // resource IDs to request, each with the version that caused the request
	// confirm has the works with a version to confirm: the source must learn that it has arrived.
	confirm  map[*agentWork]struct{}
	dialect  peer.Dialect
	answered string // ID of the last resync that was answered with a list
	account  peer.Account
	used     bool                // it had a work
	refused  map[*agentWork]bool // works with refused specs; the value is whether the spec fits now
}

// sourceLocked returns the record of a source, and makes a new one if needed.
func (r *records) sourceLocked(name string) *agentSource {
	s := r.sources[name]
	if s == nil {
		r.names.Set(0, peer.SourceSize(name))
		s = r.unrecorded(name)
		s.works, s.ask = map[string]*agentWork{}, map[string]int64{}
		s.confirm, s.refused = map[*agentWork]struct{}{}, map[*agentWork]bool{}
		r.sources[name] = s
	}
	return s
}

// unrecorded returns a source without works that is not recorded.
func (r *records) unrecorded(name string) *agentSource {
	return &agentSource{records: r, name: name, account: peer.Account{Budget: r.budget}}
}

// sourceOfLocked is sourceLocked for an event: it makes a new record only if there is room.
func (r *records) sourceOfLocked(name string) (*agentSource, error) {
	if r.sources[name] == nil && !r.names.HasRoom(peer.SourceSize(name)) {
		return nil, peer.Unusable(peer.RefusedBudget, "record the unknown source %q: %w", name, r.names.ErrFull())
	}
	return r.sourceLocked(name), nil
}

// logUnservedLocked logs the number of stored works of each source that is no longer served.
func (r *records) logUnservedLocked() {
	for name, s := range r.sources {
		held := 0
		for _, w := range s.works {
			if w.State != protocol.Tombstone {
				held++
			}
		}
		if held > 0 && !r.serves(name) {
			r.logger.Info("Kept works of a source that Sources does not name, until the source deletes them",
				"source", name, "works", held)
		}
	}
}

// endSyncLocked ends the initial sync: lists and watches no longer wait.
func (r *records) endSyncLocked() {
	if r.cache.Held() {
		r.cache.Release()
		close(r.synced)
		r.keepMetaLocked()
	}
}

// requestLocked collects a request for a version of a work or a later one, to its source.
func (s *agentSource) requestLocked(id string, version int64) error {
	if _, ok := s.ask[id]; !ok && !s.account.Charge(askSize(id)) {
		return peer.Unusable(peer.RefusedBudget, "request work %s from source %s: %w", id, s.name, s.account.ErrFull())
	}
	s.ask[id] = max(s.ask[id], version)
	s.records.schedule.gatherLocked(askDelay)
	return nil
}

// askSize is the charge for a resource ID in ask, or for an event in an answer.
func askSize(id string) int64 { return int64(peer.EntryCost + len(id)) }

// takeRequestsLocked returns the collected requests, refused specs that fit now, and confirmations.
func (s *agentSource) takeRequestsLocked() []codec.SpecEntry {
	entries, asked := make([]codec.SpecEntry, 0, len(s.ask)+len(s.confirm)), int64(0)
	for id, version := range s.ask {
		asked += askSize(id)
		w := s.works[id]
		if w == nil || w.State != protocol.Held && max(w.Version, w.entryLocked().Version) < version {
			entries = append(entries, codec.SpecEntry{ResourceID: id, Source: s.name})
		} // otherwise an answer has arrived; if it is older than the version, its confirmation shows that
	}
	for w := range s.confirm {
		if w.awaitsConfirmationLocked() && w.saving == peer.Saved {
			w.unconfirmed = false
			entries = append(entries, w.entryLocked())
		}
	}
	for w, fits := range s.refused {
		if fits && s.dialect == peer.DialectExtended { // others treat each list as complete: their next list has it
			entries = append(entries, w.entryLocked())
		}
	}
	clear(s.ask)
	s.account.Set(asked, 0)
	s.confirm = map[*agentWork]struct{}{}
	return entries
}

// entriesLocked adds the works that exist here and are in a part to a list.
func (s *agentSource) entriesLocked(list []codec.SpecEntry, p codec.Part) []codec.SpecEntry {
	if p.IsZero() {
		list = slices.Grow(list, len(s.works))
	}
	for _, w := range s.works {
		if w.State != protocol.Tombstone && peer.InPart(w.id, p) {
			list = append(list, w.entryLocked())
		}
	}
	return list
}

// sendList queues a list for the source, in chunks. TargetSource marks it as an answer: the lists
// of a new connection do not have it.
func (s *agentSource) sendList(lane engine.Lane, r *codec.SpecResync) {
	r.TargetSource = s.name
	for _, chunk := range s.records.chunksOf(r, s.name) {
		s.enqueue(lane, chunk, listSize(len(chunk.Entries)))
	}
}

func listSize(entries int) int64 { return peer.ListCost + peer.EntryCost*int64(entries) }

// sendDigestLocked queues a digest of the works for the source.
func (s *agentSource) sendDigestLocked(buckets int) {
	d := protocol.NewDigest(buckets)
	for _, w := range s.works {
		if w.State != protocol.Tombstone {
			e := w.entryLocked()
			d.Add(protocol.NewIdentity(e.ResourceID, string(e.UID)), e.Version, e.SequenceID)
		}
	}
	r := s.records
	header := codec.Header{ID: r.ids.Next(), Source: s.name, Cluster: r.options.ClusterName, Agent: r.options.AgentID}
	s.enqueue(engine.LaneControl, &codec.Digest{
		Header: header, AgentSession: r.session, Works: d.Works, Sums: d.Sums,
	}, peer.ListCost+8*int64(buckets))
}

// enqueue queues a message for the source, and charges the source for it until it is published.
func (s *agentSource) enqueue(lane engine.Lane, m codec.Message, size int64) {
	s.records.engine.Enqueue(lane, &charged{
		Item: peer.Item{Profile: s.records.options.Profile, Content: m}, account: &s.account, size: s.account.Set(0, size),
	})
}

// charged is a message that a peer has requested. The peer is charged for it while it is queued.
type charged struct {
	peer.Item
	account *peer.Account
	size    int64
}

func (c *charged) Settled(error) { c.size = c.account.Set(c.size, 0) }
