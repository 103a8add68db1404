// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// entrySize is an upper bound for the bytes of one of our own works in a list. Lists are split by
// it before they are encoded.
const entrySize = 260

// header returns the header of an event for a cluster, or for all clusters.
func (s *Source) header(cluster string) codec.Header {
	return codec.Header{
		ID: s.ids.Next(), Time: s.options.Clock.Now().UTC(), Source: s.options.SourceID, Cluster: cluster,
	}
}

// request queues a status resync before all other events. It sets ID, time and source.
func (s *Source) request(r *codec.StatusResync) {
	r.ID, r.Time, r.Source = s.ids.Next(), s.options.Clock.Now().UTC(), s.options.SourceID
	m := peer.Item{Profile: s.options.Profile, Content: r}
	if r.Cluster == "" {
		s.engine.Enqueue(engine.LaneControl, peer.NewRequirement(m, &s.asks))
		return
	}
	s.engine.Enqueue(engine.LaneControl, &m)
}

// resyncLocked begins a resync with all agents. A source that may lack works requests everything.
// Otherwise it sends each cluster the hashes of its statuses, and requests lists from all agents:
// other clusters may have works that the source has forgotten.
func (s *Source) resyncLocked() {
	s.asks.Add(1)
	s.expireTombstonesLocked(s.options.Clock.Now())
	s.metrics.ResyncBeganLocked()
	if s.traits.Bundle {
		s.resyncBundleLocked()
		return
	}
	scope := codec.ScopeLists
	if !s.complete || len(s.works) == 0 {
		scope = codec.ScopeAll
	}
	id := uuid.NewString()
	s.request(&codec.StatusResync{
		Header:    codec.Header{ResyncID: id},
		Scope:     scope,
		Broadcast: true,
	})
	for _, c := range s.clusters {
		works := s.currentOf(c)
		if scope == codec.ScopeLists {
			s.sendHashes(c, works, codec.ScopeAll, id)
		}
		if c.dialect != peer.DialectExtended { // otherwise the agent's list shows which works it lacks
			s.sendUnconfirmed(works)
		}
	}
	s.wakeAllLocked()
}

// resyncPeers compares all works with agents that send no digests, or with all agents if
// ResyncInterval is positive.
func (s *Source) resyncPeers() {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.expireTombstonesLocked(s.options.Clock.Now())
	switch {
	case !s.writingLocked():
	case s.traits.Bundle, s.options.ResyncAll:
		s.resyncLocked()
	default:
		for _, c := range s.clusters {
			if c.dialect == peer.DialectEnhancement {
				s.sendHashes(c, s.currentOf(c), codec.ScopeAll, "")
			}
		}
	}
}

func (s *Source) sendUnconfirmed(works []*sourceWork) {
	for _, w := range works {
		if !w.confirmed {
			s.sendLocked(w)
		}
	}
}

// worksOf returns the records of a cluster, tombstones included.
func (s *Source) worksOf(c *sourceCluster) []*sourceWork {
	var works []*sourceWork
	s.cache.All(c.name, func(w *sourceWork) { works = append(works, w) })
	for _, w := range c.tombstones {
		works = append(works, w)
	}
	return works
}

// currentOf returns the records of a cluster, except those of ended deletions.
func (s *Source) currentOf(c *sourceCluster) []*sourceWork {
	return slices.DeleteFunc(s.worksOf(c), func(w *sourceWork) bool { return w.phase == protocol.SourceGone })
}

// sendHashes queues the hashes of works, in chunks. A chunk is queued when the previous chunk has
// its turn, so clusters take turns.
func (s *Source) sendHashes(c *sourceCluster, works []*sourceWork, scope codec.Scope, resyncID string) *hashList {
	perList := max(1, (peer.ChunkSize(s.engine)-1024)/entrySize)
	if s.traits.Bundle {
		perList = max(1, len(works)) // an agent would treat each chunk as the whole list
	}
	count := (len(works) + perList - 1) / perList
	var next *hashList
	for i := count - 1; i >= 0; i-- {
		l := &hashList{source: s, cluster: c, scope: scope, resyncID: resyncID, next: next}
		l.works = works[i*perList : min((i+1)*perList, len(works))]
		if count > 1 {
			l.chunk = codec.Chunk{Index: i, Count: count}
		}
		next = l
	}
	if next == nil {
		return nil
	}
	next.charged = peer.ReplyCost * int64(len(works)+peer.ListCost*count/peer.ReplyCost)
	if !c.account.Charge(next.charged) {
		next.lost.Store(true)
		s.refuseEntryLocked(peer.Unusable(peer.RefusedBudget, "send hashes to cluster %q: %w", c.name, c.account.ErrFull()))
		return next
	}
	s.engine.Enqueue(engine.LaneBulk, next)
	return next
}

// sendAllHashes queues the hashes of all works of a cluster for an agent without our extensions,
// unless they are in the outbox already. With ManifestBundle, queued hashes get the current works.
func (s *Source) sendAllHashes(c *sourceCluster, works []*sourceWork, scope codec.Scope, resyncID string) {
	h := c.hashes
	switch {
	case h == nil || h.begun || h.lost.Load():
		c.hashes = s.sendHashes(c, works, scope, resyncID)
	case s.traits.Bundle && len(works) > 0: // an empty list requests everything
		h.works = works
	}
}

// hashList is one chunk of the hashes of a cluster's statuses.
type hashList struct {
	source   *Source
	cluster  *sourceCluster
	works    []*sourceWork
	scope    codec.Scope
	chunk    codec.Chunk
	resyncID string
	next     *hashList   // nil once it is queued
	charged  int64       // to the cluster, for this chunk and the next ones
	begun    bool        // it had its turn
	lost     atomic.Bool // it was not published
}

func (l *hashList) Message() (cloudevents.Message, error) {
	s := l.source
	s.cache.Lock()
	if s.outranked {
		s.cache.Unlock()
		return cloudevents.Message{}, nil
	}
	l.begun = true
	if l.next != nil {
		l.next.charged, l.charged = l.charged, 0
		s.engine.Enqueue(engine.LaneBulk, l.next)
		l.next = nil
	}
	r := &codec.StatusResync{
		Header: s.header(l.cluster.name), Scope: l.scope, Chunk: l.chunk,
		// An agent without our extensions reads the directed topic only in the profile ManifestBundle.
		Broadcast: l.cluster.dialect == peer.DialectEnhancement && !s.traits.Bundle,
		Entries:   make([]codec.StatusEntry, 0, len(l.works)),
	}
	r.ResyncID = l.resyncID
	bounds := peer.BoundsOf(s.traits, s.options.Clock)
	for _, w := range l.works {
		w.healLocked(bounds)
		hash, err := w.statusHash()
		if err != nil {
			s.logger.Error(err, "Failed to hash a status", "work", w.name, "cluster", w.cluster.name)
			continue
		}
		w.named = s.traits.Bundle
		r.Entries = append(r.Entries, codec.StatusEntry{ResourceID: w.id, Hash: hash, UID: w.uid, StatusSeq: w.seq})
	}
	s.cache.Unlock()
	s.metrics.CountListed(peer.Sent, len(r.Entries))
	return peer.Encode(s.options.Profile, r)
}

func (l *hashList) Settled(err error) {
	l.charged = l.cluster.account.Set(l.charged, 0)
	if err != nil {
		l.lost.Store(true)
	}
}

// statusHash returns the hash of the status that the agent reported, or an empty string without
// one. An agent of the profile ManifestBundle answers an empty hash, and so confirms the work.
func (w *sourceWork) statusHash() (string, error) {
	if w.hash != "" || w.Object == nil || w.source.traits.Bundle && !w.bundle.reported {
		return w.hash, nil
	}
	status := w.Object.Status
	if w.problem != nil {
		status = w.problem.uncover(status)
	}
	if peer.EmptyStatus(&status) && !w.source.traits.Bundle {
		return "", nil
	}
	hash, err := w.source.options.Profile.StatusHash(&status)
	w.hash = hash
	return hash, err
}

// agentList is an agent's list, which may have several chunks. A work counts as absent only after
// all chunks have arrived.
type agentList struct {
	answer
	charged  int64      // to its cluster
	part     codec.Part // of the works; zero for all
	progress time.Time  // when the last chunk arrived
	count    int
	received map[int]struct{}
	listed   map[string]struct{}
	unknown  []string // works of an agent without our extensions
}

// onListLocked handles a chunk of an agent's list, and answers the list after its last chunk.
func (s *Source) onListLocked(m *codec.SpecResync) error {
	if m.TargetSource != "" && m.TargetSource != s.options.SourceID {
		return nil
	}
	c, err := s.clusterOfLocked(m.Cluster)
	if err != nil {
		return err
	}
	c.speaks(peer.DialectOf(m.AgentSession != ""))
	if c.dialect == peer.DialectExtended {
		c.session = m.AgentSession
	}
	s.metrics.CountListed(peer.Received, len(m.Entries))
	l := s.gather(c, m)
	defer func() { // its answer may be kept for long
		if c.lists[m.ResyncID] != l {
			l.received, l.listed, l.unknown = nil, nil, nil
		}
	}()
	if err := c.keepChunk(l, m); err != nil {
		return err
	}
	for i := range m.Entries {
		s.onEntry(c, l, &m.Entries[i], !m.Broadcast)
	}
	if len(c.delivery.asks) > 0 {
		s.askStatusesLocked(c, s.options.Clock.Now())
	}
	s.askUnknownLocked(c, l.unknown)
	l.unknown = nil
	if m.Scope != codec.ScopeAll || len(l.received) < l.count {
		return nil
	}
	c.dropList(m.ResyncID)
	return s.onCompleteListLocked(c, l, m)
}

// onCompleteListLocked answers a list of which all chunks have arrived. m is the last chunk.
func (s *Source) onCompleteListLocked(c *sourceCluster, l *agentList, m *codec.SpecResync) error {
	if !c.mayCompare() {
		s.droppedLocked(c)
		return peer.Unusable(peer.RefusedBudget, "cluster %q lists its works more than %d times a second", c.name,
			comparesEachSecond)
	}
	works := s.worksOf(c)
	if s.traits.Bundle && m.TargetSource == "" {
		// The list that an agent sends after it has connected names no source, and has no statuses.
		// The agent may have missed the hashes that were sent when this source connected.
		s.sendAllHashes(c, works, codec.ScopeAll, "")
	}
	answersHashes := s.traits.Bundle && m.TargetSource != "" // then it has only works that the hashes named
	if !answersHashes {
		whole := s.inventoryLocked(c).Whole()
		c.forgetSuspects(func(id string) bool {
			_, listed := l.listed[id]
			return peer.InPart(id, l.part) && !(listed && whole) && s.works[workID{c.name, id}] == nil
		})
	}
	if l.part.IsZero() {
		c.delivery.listedLocked()
	}
	if !m.Broadcast { // otherwise the agent began the exchange
		s.metrics.AnsweredLocked(&c.answered)
	}
	if c.dialect == peer.DialectEnhancement && !s.traits.Bundle {
		// Its list does not show which statuses it reported while this source was away.
		s.sendAllHashes(c, works, codec.ScopeListed, uuid.NewString())
	}
	for _, w := range works {
		if _, ok := l.listed[w.id]; !ok && w.phase != protocol.SourceGone && peer.InPart(w.id, l.part) &&
			(w.named || !answersHashes) {
			s.reply(l, w)
		}
		w.named = w.named && !answersHashes
	}
	if !l.part.IsZero() {
		return nil // no agent waits for the end marker
	}
	s.supersede(c, l)
	c.checked()
	if m.ResyncID != "" {
		c.answers.end(&endMarker{answer: &l.answer, source: s, cluster: c})
	}
	return nil
}

// gather returns the list of a chunk, and makes a new list for a first chunk.
func (s *Source) gather(c *sourceCluster, m *codec.SpecResync) *agentList {
	l := c.lists[m.ResyncID]
	if l == nil || m.ResyncID == "" {
		l = &agentList{
			answer: answer{
				resyncID: m.ResyncID, session: m.AgentSession, round: s.round,
				whole: m.Scope == codec.ScopeAll && m.Part.IsZero(),
				part:  !m.Part.IsZero(),
			},
			part: m.Part, count: max(m.Chunk.Count, 1),
			received: map[int]struct{}{}, listed: map[string]struct{}{},
		}
		if l.count > 1 && m.ResyncID != "" && m.Scope == codec.ScopeAll {
			c.lists[m.ResyncID] = l
		}
	}
	l.progress = s.options.Clock.Now()
	if l.count > 1 {
		s.wakeClusterLocked(c, l.progress.Add(listTimeout))
	}
	l.received[m.Chunk.Index] = struct{}{}
	return l
}

// keepChunk charges the cluster for a chunk of a list that is not complete. A list over the budget
// is dropped, and requested again later.
func (c *sourceCluster) keepChunk(l *agentList, m *codec.SpecResync) error {
	if c.lists[m.ResyncID] != l || m.ResyncID == "" {
		return nil
	}
	size := int64(peer.ListCost)
	for i := range m.Entries {
		size += int64(peer.EntryCost + len(m.Entries[i].ResourceID))
	}
	if c.account.Charge(size) {
		l.charged += size
		return nil
	}
	c.dropList(m.ResyncID)
	c.source.droppedLocked(c)
	return peer.Unusable(peer.RefusedBudget, "receive a list of cluster %q: %w", c.name, c.account.ErrFull())
}

func (c *sourceCluster) dropList(id string) {
	if l := c.lists[id]; l != nil {
		l.charged = c.account.Set(l.charged, 0)
		delete(c.lists, id)
	}
}

func (c *sourceCluster) dropLists() {
	for id := range c.lists {
		c.dropList(id)
	}
}

func (s *Source) onEntry(c *sourceCluster, l *agentList, e *codec.SpecEntry, directed bool) {
	if e.Source == "" && c.dialect == peer.DialectExtended {
		s.refuseEntryLocked(peer.Unusable(peer.RefusedUnexpected, "cluster %q lists work %s without a source", c.name,
			e.ResourceID))
		return
	}
	foreign := e.Source != "" && e.Source != s.options.SourceID
	w := s.works[workID{c.name, e.ResourceID}]
	if err := s.checkLocked(w, e.ResourceID, peer.Numbers{Version: e.Version, Seq: e.SequenceID}); err != nil {
		s.refuseEntryLocked(err)
		return
	}
	if !foreign {
		l.listed[e.ResourceID] = struct{}{}
	}
	about := s.traits.Bundle || !foreign && (e.Source != "" || w != nil)
	if about && (w != nil || directed || !s.traits.Bundle) {
		s.detectOutdatedLocked(c, w, e.ResourceID, e.Version)
	}
	act := protocol.OnListEntry(w.view(), protocol.ListEntry{
		Version:  protocol.Version{V: e.Version, UID: string(e.UID)},
		Seq:      e.SequenceID,
		Foreign:  foreign,
		NoSource: e.Source == "",
		Bundle:   s.traits.Bundle,
		Own:      directed,
	}, !foreign && e.Version > 0 && s.deletesLocked(c, w, e.ResourceID))
	if about {
		s.sawLocked(c, w, e.ResourceID, e.Version, act.Raise)
	}
	if act.Confirmed {
		s.confirmLocked(w)
	}
	switch {
	case act.Raise && !s.mayRaiseLocked(w):
	case act.DeleteUnknown:
		if w, err := s.deleteUnknownLocked(c, e.ResourceID, ""); err != nil {
			s.refuseEntryLocked(err)
		} else {
			s.replyNew(l, w)
		}
	case act.Raise:
		s.raiseShownLocked(w)
		s.replyNew(l, w)
	case act.Send:
		s.reply(l, w)
	}
	switch {
	case act.AskStatus && w == nil:
		if _, requested := c.suspects[e.ResourceID]; !requested {
			l.unknown = append(l.unknown, e.ResourceID)
		}
	case act.AskStatus && !w.asked:
		w.asked = true
		c.delivery.asks = append(c.delivery.asks, w)
	}
}
