// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/codec"
)

// listTimeout is how long a list may make no progress before it is requested again.
const listTimeout = 20 * time.Second

// lists are the lists of the agent of one cluster. The source's mutex guards them.
type lists struct {
	cluster  *sourceCluster
	open     map[string]*agentList // incomplete chunked lists, by resync ID
	answered int                   // the last resync that the agent has answered, for the metrics
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

// checkLocked requests dropped and incomplete lists again. It returns the time of its next call.
func (ls *lists) checkLocked(now time.Time) (next time.Time) {
	c := ls.cluster
	if !c.droppedAt.IsZero() {
		if due := c.droppedAt.Add(listTimeout); !peer.IsDue(due, now, listTimeout) {
			next = due
		} else {
			c.droppedAt = time.Time{}
			ls.askLocked(codec.Part{})
		}
	}
	for id, l := range ls.open {
		if due := l.progress.Add(listTimeout); !peer.IsDue(due, now, listTimeout) {
			next = peer.Earliest(next, due)
			continue
		}
		ls.dropLocked(id)
		ls.askLocked(l.part)
	}
	return next
}

// askLocked requests a list of a part of the works of a cluster. An agent without our
// extensions sends a list only in answer to hashes.
func (ls *lists) askLocked(part codec.Part) {
	c := ls.cluster
	if c.dialect == peer.DialectEnhancement || c.traits.Bundle {
		c.statuses.sendAllHashesLocked(c.currentLocked(), codec.ScopeAll, "")
		return
	}
	c.request(codec.ScopeLists, part, uuid.NewString())
}

// receiveLocked handles a chunk of an agent's list, and answers the list after its last chunk.
func (ls *lists) receiveLocked(m *codec.SpecResync) error {
	c := ls.cluster
	c.speaksLocked(peer.DialectOf(m.AgentSession != ""))
	if c.dialect == peer.DialectExtended {
		c.session = m.AgentSession
	}
	c.metrics.CountListed(peer.Received, len(m.Entries))
	l := ls.gatherLocked(m)
	defer func() { // its answer may be kept for long
		if ls.open[m.ResyncID] != l {
			l.received, l.listed, l.unknown = nil, nil, nil
		}
	}()
	if err := ls.keepChunkLocked(l, m); err != nil {
		return err
	}
	for i := range m.Entries {
		ls.onEntryLocked(l, &m.Entries[i], !m.Broadcast)
	}
	if len(c.statuses.asks) > 0 {
		c.statuses.askLocked(c.now())
	}
	c.statuses.askUnknownLocked(l.unknown)
	l.unknown = nil
	if m.Scope != codec.ScopeAll || len(l.received) < l.count {
		return nil
	}
	ls.dropLocked(m.ResyncID)
	return ls.completeLocked(l, m)
}

// completeLocked answers a list after all its chunks have arrived. m is the last chunk.
func (ls *lists) completeLocked(l *agentList, m *codec.SpecResync) error {
	c := ls.cluster
	if !c.mayCompare() {
		c.droppedLocked()
		return peer.Unusable(peer.RefusedBudget, "cluster %q lists its works more than %d times a second", c.name,
			comparesEachSecond)
	}
	works := c.worksLocked()
	if c.traits.Bundle && m.TargetSource == "" {
		// The list that an agent sends after it has connected names no source, and has no statuses.
		// The agent may have missed the hashes that were sent when this source connected.
		c.statuses.sendAllHashesLocked(works, codec.ScopeAll, "")
	}
	answersHashes := c.traits.Bundle && m.TargetSource != "" // then it has only works that the hashes named
	if !answersHashes {
		whole := c.inventoryLocked().Whole()
		c.suspects.forgetIfLocked(func(id string) bool {
			_, listed := l.listed[id]
			return peer.InPart(id, l.part) && !(listed && whole) && c.records.works[workID{c.name, id}] == nil
		})
	}
	if l.part.IsZero() {
		c.delivery.listedLocked()
	}
	if !m.Broadcast { // otherwise the agent began the exchange
		c.metrics.AnsweredLocked(&ls.answered)
	}
	if c.dialect == peer.DialectEnhancement && !c.traits.Bundle {
		// Its list does not show which statuses it reported while this source was away.
		c.statuses.sendAllHashesLocked(works, codec.ScopeListed, uuid.NewString())
	}
	for _, w := range works {
		if _, ok := l.listed[w.id]; !ok && w.phase != protocol.SourceGone && peer.InPart(w.id, l.part) &&
			(w.named || !answersHashes) {
			c.answers.replyLocked(l, w)
		}
		w.named = w.named && !answersHashes
	}
	if !l.part.IsZero() {
		return nil // no agent waits for the end marker
	}
	c.answers.supersedeLocked(l)
	c.checkedLocked()
	if m.ResyncID != "" && !c.traits.Bundle {
		c.answers.endLocked(&endMarker{answer: &l.answer, cluster: c})
	}
	return nil
}

// gatherLocked returns the list of a chunk, and makes a new list for a first chunk.
func (ls *lists) gatherLocked(m *codec.SpecResync) *agentList {
	c := ls.cluster
	l := ls.open[m.ResyncID]
	if l == nil || m.ResyncID == "" {
		l = &agentList{
			answer: answer{
				resyncID: m.ResyncID, session: m.AgentSession, round: c.records.round,
				whole: m.Scope == codec.ScopeAll && m.Part.IsZero(),
				part:  !m.Part.IsZero(),
			},
			part: m.Part, count: max(m.Chunk.Count, 1),
			received: map[int]struct{}{}, listed: map[string]struct{}{},
		}
		if l.count > 1 && m.ResyncID != "" && m.Scope == codec.ScopeAll {
			ls.open[m.ResyncID] = l
		}
	}
	l.progress = c.now()
	if l.count > 1 {
		c.wakeLocked(l.progress.Add(listTimeout))
	}
	l.received[m.Chunk.Index] = struct{}{}
	return l
}

func (ls *lists) onEntryLocked(l *agentList, e *codec.SpecEntry, directed bool) {
	c := ls.cluster
	if e.Source == "" && c.dialect == peer.DialectExtended {
		c.refuseEntryLocked(peer.Unusable(peer.RefusedUnexpected, "cluster %q lists work %s without a source", c.name,
			e.ResourceID))
		return
	}
	foreign := e.Source != "" && e.Source != c.options.SourceID
	w := c.records.works[workID{c.name, e.ResourceID}]
	if err := c.records.checkLocked(w, e.ResourceID, peer.Numbers{Version: e.Version, Seq: e.SequenceID}); err != nil {
		c.refuseEntryLocked(err)
		return
	}
	if !foreign {
		l.listed[e.ResourceID] = struct{}{}
	}
	about := c.traits.Bundle || !foreign && (e.Source != "" || w != nil)
	if about && (w != nil || directed || !c.traits.Bundle) {
		c.detectOutdatedLocked(w, e.ResourceID, e.Version)
	}
	act := protocol.OnListEntry(w.view(), protocol.ListEntry{
		Version:  protocol.Version{V: e.Version, UID: string(e.UID)},
		Seq:      e.SequenceID,
		Foreign:  foreign,
		NoSource: e.Source == "",
		Bundle:   c.traits.Bundle,
		Own:      directed,
	}, !foreign && e.Version > 0 && c.deletesLocked(w, e.ResourceID))
	if about {
		c.sawLocked(w, e.ResourceID, e.Version, act.Raise)
	}
	if act.Confirmed {
		w.confirmLocked()
	}
	switch {
	case act.Raise && !w.mayRaiseLocked():
	case act.DeleteUnknown:
		if w, err := c.deleteUnknownLocked(e.ResourceID, ""); err != nil {
			c.refuseEntryLocked(err)
		} else {
			c.answers.replyNewLocked(l, w)
		}
	case act.Raise:
		w.raiseShownLocked()
		c.answers.replyNewLocked(l, w)
	case act.Send:
		c.answers.replyLocked(l, w)
	}
	switch {
	case act.AskStatus && w == nil:
		if _, requested := c.suspects.byID[e.ResourceID]; !requested {
			l.unknown = append(l.unknown, e.ResourceID)
		}
	case act.AskStatus && !w.asked:
		w.asked = true
		c.statuses.asks = append(c.statuses.asks, w)
	}
}

// keepChunkLocked charges the cluster for a chunk of a list that is not complete. A list over the
// budget is dropped, and requested again later.
func (ls *lists) keepChunkLocked(l *agentList, m *codec.SpecResync) error {
	c := ls.cluster
	if ls.open[m.ResyncID] != l || m.ResyncID == "" {
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
	ls.dropLocked(m.ResyncID)
	c.droppedLocked()
	return peer.Unusable(peer.RefusedBudget, "receive a list of cluster %q: %w", c.name, c.account.ErrFull())
}

func (ls *lists) dropLocked(id string) {
	if l := ls.open[id]; l != nil {
		l.charged = ls.cluster.account.Set(l.charged, 0)
		delete(ls.open, id)
	}
}

func (ls *lists) dropAllLocked() {
	for id := range ls.open {
		ls.dropLocked(id)
	}
}
