// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// unknownAsk requests the statuses of unknown works that an agent without our extensions has.
// Agents send a status to the source of the work, so an answer shows that the work belongs to this
// source. The source's mutex guards it until it has its turn.
type unknownAsk struct {
	source  *Source
	cluster *sourceCluster
	ids     map[string]struct{}
	entries []codec.StatusEntry // set when it has its turn
	charged int64               // to the cluster
}

// askUnknownLocked adds works to the request that waits in the outbox.
func (s *Source) askUnknownLocked(c *sourceCluster, ids []string) {
	if len(ids) == 0 {
		return
	}
	a := c.unknownAsk
	if a == nil {
		a = &unknownAsk{source: s, cluster: c, ids: map[string]struct{}{}}
		c.unknownAsk = a
		s.engine.Enqueue(engine.LaneBulk, a)
	}
	for _, id := range ids {
		if _, ok := a.ids[id]; ok {
			continue
		}
		if !c.account.Charge(suspectSize(id)) {
			s.refuseEntryLocked(peer.Unusable(peer.RefusedBudget,
				"request the status of work %s of cluster %q: %w", id, c.name, c.account.ErrFull()))
			return
		}
		a.charged += suspectSize(id)
		a.ids[id] = struct{}{}
	}
}

// begin chooses the works of one message. Another item gets the remaining works.
func (a *unknownAsk) begin() {
	c := a.cluster
	if c.unknownAsk == a {
		c.unknownAsk = nil
	}
	size, most := 1024, peer.ChunkSize(a.source.engine)
	for id := range a.ids {
		if size += int(suspectSize(id)); size > most && len(a.entries) > 0 {
			break
		}
		a.entries = append(a.entries, codec.StatusEntry{ResourceID: id})
		delete(a.ids, id)
	}
	if len(a.ids) > 0 {
		rest := &unknownAsk{source: a.source, cluster: c, ids: a.ids}
		for id := range rest.ids {
			rest.charged += suspectSize(id)
		}
		a.charged -= rest.charged
		c.unknownAsk = rest
		a.source.engine.Enqueue(engine.LaneBulk, rest)
	}
	a.ids = nil
}

func (a *unknownAsk) Message() (cloudevents.Message, error) {
	s := a.source
	s.cache.Lock()
	if a.entries == nil {
		a.begin()
	}
	outranked := s.outranked
	s.cache.Unlock()
	if outranked || len(a.entries) == 0 {
		return cloudevents.Message{}, nil
	}
	r := &codec.StatusResync{Header: s.header(a.cluster.name), Entries: a.entries}
	if !s.traits.Bundle { // then an agent without our extensions reads only the topic for all clusters
		r.Scope, r.Broadcast = codec.ScopeListed, true
	}
	return peer.Encode(s.options.Profile, r)
}

func (a *unknownAsk) Settled(error) { a.charged = a.cluster.account.Set(a.charged, 0) }
