// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// entrySize is an upper bound for the bytes of one of our own works in a list. Lists are split by
// it before they are encoded.
const entrySize = 260

// refusedInterval is the time between two requests for refused statuses.
const refusedInterval = time.Minute

// statusRequests requests statuses from the agent of one cluster. The source's mutex guards it.
type statusRequests struct {
	cluster   *sourceCluster
	hashes    *hashList             // of all works, for an agent without our extensions
	unknown   *unknownAsk           // queued in the outbox, for an agent without our extensions
	asks      []*sourceWork         // with statuses to request
	awaited   []*sourceWork         // with requested statuses
	asked     int                   // number of requested statuses that have not arrived
	askAt     time.Time             // when the next statuses are requested if none arrives
	refused   map[*sourceWork]int64 // the sizes of statuses that were refused for lack of memory
	refusedAt time.Time             // when a status was refused, or requested again, last
}

// sendHashesLocked queues the hashes of works, in chunks. A chunk is queued when the previous chunk
// has its turn, so clusters take turns.
func (q *statusRequests) sendHashesLocked(works []*sourceWork, scope codec.Scope, resyncID string) *hashList {
	c := q.cluster
	next := q.hashLists(works, scope, resyncID)
	if next == nil {
		return nil
	}
	count := max(1, next.chunk.Count)
	next.charged = peer.ReplyCost * int64(len(works)+peer.ListCost*count/peer.ReplyCost)
	if !c.account.Charge(next.charged) {
		next.lost.Store(true)
		c.refuseEntryLocked(peer.Unusable(peer.RefusedBudget, "send hashes to cluster %q: %w", c.name, c.account.ErrFull()))
		return next
	}
	c.engine.Enqueue(engine.LaneBulk, next)
	return next
}

// hashLists returns the first chunk of the hashes of works, or nil without works. An agent of OCM
// treats each chunk as a list of its own, and compares the statuses of its works only.
func (q *statusRequests) hashLists(works []*sourceWork, scope codec.Scope, resyncID string) (first *hashList) {
	perList := max(1, (peer.ChunkSize(q.cluster.engine)-1024)/entrySize)
	count := (len(works) + perList - 1) / perList
	if count > 1 {
		resyncID = cmp.Or(resyncID, uuid.NewString()) // chunks need it
	}
	for i := count - 1; i >= 0; i-- {
		l := &hashList{cluster: q.cluster, scope: scope, resyncID: resyncID, next: first}
		l.works = works[i*perList : min((i+1)*perList, len(works))]
		if count > 1 {
			l.chunk = codec.Chunk{Index: i, Count: count}
		}
		first = l
	}
	return first
}

// sendAllHashesLocked queues the hashes of all works of a cluster for an agent without our
// extensions, unless they are in the outbox already. With ManifestBundle, queued hashes get the
// current works.
func (q *statusRequests) sendAllHashesLocked(works []*sourceWork, scope codec.Scope, resyncID string) {
	switch {
	case !q.queuedLocked():
		q.hashes = q.sendHashesLocked(works, scope, resyncID)
	case q.cluster.traits.Bundle && len(works) > 0: // an empty list requests everything
		l := q.hashLists(works, scope, resyncID)
		q.hashes.works, q.hashes.chunk, q.hashes.resyncID, q.hashes.next = l.works, l.chunk, l.resyncID, l.next
	}
}

// queuedLocked reports whether hashes are in the outbox.
func (q *statusRequests) queuedLocked() bool {
	return q.hashes != nil && !q.hashes.begun && !q.hashes.lost.Load()
}

// askUnknownLocked adds works to the request that waits in the outbox.
func (q *statusRequests) askUnknownLocked(ids []string) {
	c := q.cluster
	if len(ids) == 0 {
		return
	}
	a := q.unknown
	if a == nil {
		a = &unknownAsk{cluster: c, ids: map[string]struct{}{}}
		q.unknown = a
		c.engine.Enqueue(engine.LaneBulk, a)
	}
	for _, id := range ids {
		if _, ok := a.ids[id]; ok {
			continue
		}
		if !c.account.Charge(suspectSize(id)) {
			c.refuseEntryLocked(peer.Unusable(peer.RefusedBudget,
				"request the status of work %s of cluster %q: %w", id, c.name, c.account.ErrFull()))
			return
		}
		a.charged += suspectSize(id)
		a.ids[id] = struct{}{}
	}
}

// askLocked requests the statuses of the works in asks, a limited number at a time. It
// returns the time of its next call.
func (q *statusRequests) askLocked(now time.Time) time.Time {
	c := q.cluster
	if q.asked > 0 && peer.IsDue(q.askAt, now, resendAfter) {
		q.asked = 0 // they were lost, or there is no new status: the next digest shows which
		for _, w := range q.awaited {
			w.asked = false
		}
		q.awaited = nil
	}
	switch {
	case len(q.asks) == 0 && q.asked == 0:
		return time.Time{}
	case len(q.asks) == 0 || q.asked > mostRepair/2:
		return q.askAt
	}
	n := min(len(q.asks), mostRepair-q.asked)
	works := slices.DeleteFunc(q.asks[:n:n], func(w *sourceWork) bool {
		return c.records.works[workID{c.name, w.id}] != w
	})
	if q.asks = q.asks[n:]; len(q.asks) == 0 {
		q.asks = nil
	}
	q.asked += len(works)
	if q.asked == len(works) {
		q.awaited = nil
	}
	q.awaited = append(q.awaited, works...)
	if len(works) > 0 {
		q.sendHashesLocked(works, codec.ScopeListed, uuid.NewString())
	}
	q.askAt = now.Add(resendAfter)
	c.wakeLocked(q.askAt)
	return q.askAt
}

// refusedLocked records that a status was refused for lack of memory.
func (q *statusRequests) refusedLocked(w *sourceWork, size int64) {
	if q.refused == nil {
		q.refused = map[*sourceWork]int64{}
	}
	q.refused[w], q.refusedAt = size, q.cluster.now()
	q.cluster.wakeLocked(q.refusedAt.Add(refusedInterval))
}

// askRefusedLocked requests refused statuses again, as many as fit into memory now. It returns the
// time of its next call. Agents without digests get the hashes of all statuses instead; see
// [SourceOptions.ResyncInterval].
func (q *statusRequests) askRefusedLocked(now time.Time) time.Time {
	c := q.cluster
	if len(q.refused) == 0 || c.dialect != peer.DialectExtended || c.traits.Bundle {
		return time.Time{}
	}
	if due := q.refusedAt.Add(refusedInterval); !peer.IsDue(due, now, refusedInterval) {
		return due
	}
	q.refusedAt = now
	var size int64
	for w, refused := range q.refused {
		if more := max(refused-w.charged, 0); !w.asked && c.account.HasRoom(size+more) {
			size += more
			w.asked = true
			q.asks = append(q.asks, w)
		}
	}
	return now.Add(refusedInterval)
}

// cameLocked notes the arrival of a status that may have been requested.
func (q *statusRequests) cameLocked(w *sourceWork) {
	if !w.asked {
		return
	}
	w.asked = false
	q.asked = max(q.asked-1, 0)
	now := q.cluster.now()
	q.askAt = now.Add(resendAfter)
	if len(q.asks) > 0 {
		q.askLocked(now)
	}
}

// resetLocked forgets all requests: the next connection begins with new ones.
func (q *statusRequests) resetLocked() {
	for _, w := range append(q.asks, q.awaited...) {
		w.asked = false
	}
	q.asks, q.awaited, q.asked, q.hashes, q.unknown = nil, nil, 0, nil, nil
}

// hashList is one chunk of the hashes of a cluster's statuses.
type hashList struct {
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
	c := l.cluster
	c.mu.Lock()
	if c.records.outranked {
		c.mu.Unlock()
		return cloudevents.Message{}, nil
	}
	l.begun = true
	if l.next != nil {
		l.next.charged, l.charged = l.charged, 0
		c.engine.Enqueue(engine.LaneBulk, l.next)
		l.next = nil
	}
	r := &codec.StatusResync{
		Header: c.header(c.name, l.resyncID), Scope: l.scope, Chunk: l.chunk,
		// An agent without our extensions reads the directed topic only in the profile
		// ManifestBundle.
		Broadcast: c.dialect == peer.DialectEnhancement && !c.traits.Bundle,
		Entries:   make([]codec.StatusEntry, 0, len(l.works)),
	}
	bounds := peer.BoundsOf(c.traits, c.options.Clock)
	for _, w := range l.works {
		w.healLocked(bounds)
		hash, err := w.statusHashLocked()
		if err != nil {
			c.logger.Error(err, "Failed to hash a status", "work", w.name, "cluster", c.name)
			continue
		}
		w.named = c.traits.Bundle
		r.Entries = append(r.Entries, codec.StatusEntry{ResourceID: w.id, Hash: hash, UID: w.uid, StatusSeq: w.seq})
	}
	c.mu.Unlock()
	c.metrics.CountListed(peer.Sent, len(r.Entries))
	return peer.Encode(c.options.Profile, r)
}

func (l *hashList) Settled(err error) {
	l.charged = l.cluster.account.Set(l.charged, 0)
	if err != nil {
		l.lost.Store(true)
	}
}

// statusHashLocked returns the hash of the status that the agent reported, or an empty string
// without one. An agent of the profile ManifestBundle answers an empty hash, and so confirms the
// work.
func (w *sourceWork) statusHashLocked() (string, error) {
	if w.hash != "" || w.Object == nil || w.cluster.traits.Bundle && !w.bundle.Reported {
		return w.hash, nil
	}
	status := w.Object.Status
	if w.problem != nil {
		status = w.problem.uncover(status)
	}
	if peer.EmptyStatus(&status) && !w.cluster.traits.Bundle {
		return "", nil
	}
	hash, err := w.cluster.options.Profile.StatusHash(&status)
	w.hash = hash
	return hash, err
}

// unknownAsk requests the statuses of unknown works that an agent without our extensions has.
// Agents send a status to the source of the work, so an answer shows that the work belongs to this
// source. The source's mutex guards it until it has its turn.
type unknownAsk struct {
	cluster *sourceCluster
	ids     map[string]struct{}
	entries []codec.StatusEntry // set when it has its turn
	charged int64               // to the cluster
}

// beginLocked chooses the works of one message. Another item gets the remaining works.
func (a *unknownAsk) beginLocked() {
	c := a.cluster
	if c.statuses.unknown == a {
		c.statuses.unknown = nil
	}
	size, most := 1024, peer.ChunkSize(a.cluster.engine)
	for id := range a.ids {
		if size += int(suspectSize(id)); size > most && len(a.entries) > 0 {
			break
		}
		a.entries = append(a.entries, codec.StatusEntry{ResourceID: id})
		delete(a.ids, id)
	}
	if len(a.ids) > 0 {
		rest := &unknownAsk{cluster: c, ids: a.ids}
		for id := range rest.ids {
			rest.charged += suspectSize(id)
		}
		a.charged -= rest.charged
		c.statuses.unknown = rest
		a.cluster.engine.Enqueue(engine.LaneBulk, rest)
	}
	a.ids = nil
}

func (a *unknownAsk) Message() (cloudevents.Message, error) {
	a.cluster.mu.Lock()
	if a.entries == nil {
		a.beginLocked()
	}
	outranked := a.cluster.records.outranked
	a.cluster.mu.Unlock()
	if outranked || len(a.entries) == 0 {
		return cloudevents.Message{}, nil
	}
	r := &codec.StatusResync{Header: a.cluster.header(a.cluster.name, ""), Entries: a.entries}
	if !a.cluster.traits.Bundle { // then an agent without our extensions reads only the topic for all clusters
		r.Scope, r.Broadcast = codec.ScopeListed, true
	}
	return peer.Encode(a.cluster.options.Profile, r)
}

func (a *unknownAsk) Settled(error) { a.charged = a.cluster.account.Set(a.charged, 0) }
