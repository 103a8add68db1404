// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/peer"
	"github.com/spokewire/sdk-go/codec"
)

// answer is the answer to one list of an agent. It counts the events of the answer.
type answer struct {
	resyncID, session string
	round             uint64 // the source's round when it began
	sent              atomic.Int64
	lost              atomic.Bool // an event was dropped, or lost with its connection

	// The source's mutex guards the following fields.
	whole  bool          // the list has all works of the agent
	part   bool          // the list has a part of them: no agent waits for the answer
	over   bool          // superseded: the rest is not sent
	works  []*sourceWork // not queued yet, and neither is last
	last   *endMarker
	parked int        // events that wait until their work is stored
	end    *endMarker // waits for the parked events after its turn
}

// answers are the source's answers to one cluster, in the order of its lists. An event is queued
// when the previous event has its turn. So clusters take turns, and a superseded answer can be
// dropped. The source's mutex guards them.
type answers struct {
	source  *Source
	open    []*answer // with events to queue
	size    int64     // bytes charged to the cluster, at least the size of open
	account *peer.Account
	queued  *answer // has an event in the outbox
}

// reply adds a work to an answer. If the list has only a part of the works, it skips a work that
// may be on its way to the agent.
func (s *Source) reply(l *agentList, w *sourceWork) {
	if !l.answer.part || !w.underWay() {
		s.replyNew(l, w)
	}
}

// replyNew is reply for a version that was never sent.
func (s *Source) replyNew(l *agentList, w *sourceWork) {
	if l.given() {
		return
	}
	size := l.size(1)
	if !w.cluster.account.Charge(size - l.size(0)) {
		l.lost.Store(true) // its end marker must not be sent
		s.droppedLocked(w.cluster)
		s.refuseEntryLocked(peer.Unusable(peer.RefusedBudget, "send an answer to cluster %q: %w",
			w.cluster.name, w.cluster.account.ErrFull()))
		return
	}
	w.cluster.answers.size += size - l.size(0)
	if w.confirmed { // the list shows that the agent does not have it
		s.unconfirmLocked(w)
	}
	w.cluster.answers.open = w.cluster.answers.with(&l.answer)
	l.works = append(l.works, w)
	w.cluster.answers.advance()
}

// end adds the end of an answer.
func (a *answers) end(e *endMarker) {
	if e.given() {
		return
	}
	a.open = a.with(e.answer)
	e.last = e
	a.advance()
}

func (a *answers) with(one *answer) []*answer {
	if len(one.works) > 0 || one.last != nil { // the answer is in open already
		return a.open
	}
	return append(a.open, one)
}

// given reports whether the answer was given up.
func (a *answer) given() bool { return a.over || a.lost.Load() }

// advance queues the next event, unless an event is queued already.
func (a *answers) advance() {
	if a.queued != nil && !a.queued.lost.Load() {
		return
	}
	a.queued = nil
	a.giveUp()
	if len(a.open) == 0 {
		return
	}
	one := a.open[0]
	for one.part && len(one.works) > 1 && one.works[0].sentSince() {
		one.works[0] = nil
		one.works = one.works[1:]
	}
	var it engine.Item = one.last
	if len(one.works) > 0 {
		if !one.works[0].cluster.opens() { // wait until the agent confirms more, or events count as lost
			return
		}
		one.works[0].answeredLocked()
		it = &specAnswer{answer: one, work: one.works[0]}
		one.works[0] = nil
		one.works = one.works[1:]
	} else {
		one.last = nil
	}
	if len(one.works) == 0 && one.last == nil {
		a.open = slices.Delete(a.open, 0, 1)
		a.recount()
	}
	a.queued = one
	a.source.engine.Enqueue(engine.LaneBulk, it)
}

// giveUp drops the answers that were given up.
func (a *answers) giveUp() {
	n := len(a.open)
	if a.open = slices.DeleteFunc(a.open, (*answer).given); len(a.open) != n {
		a.recount()
	}
}

// recount charges the cluster for the remaining answers.
func (a *answers) recount() {
	size := int64(0)
	for _, one := range a.open {
		size += one.size(0)
	}
	a.size = a.account.Set(a.size, size)
}

// size returns the estimated bytes of an answer with n more works.
func (a *answer) size(n int) int64 {
	if n += len(a.works); n == 0 {
		return 0
	}
	return peer.ListCost + peer.ReplyCost*int64(n)
}

// begun is called when the queued event has its turn.
func (a *answers) begun() {
	a.queued = nil
	a.advance()
}

// supersede drops earlier answers to an agent that has now listed all its works. Two processes of
// an agent may run at a time: works that remain in dropped answers to the other process are added
// to this answer.
func (s *Source) supersede(c *sourceCluster, l *agentList) {
	var rest []*sourceWork
	for _, old := range c.answers.open {
		if old == &l.answer || old.session == l.session && !old.whole {
			continue
		}
		if old.session != l.session {
			rest = append(rest, old.works...)
		}
		old.over, old.works, old.last = true, nil, nil
	}
	c.answers.giveUp()
	if len(rest) == 0 {
		return
	}
	has := make(map[*sourceWork]struct{}, len(l.works))
	for _, w := range l.works {
		has[w] = struct{}{}
	}
	for _, w := range rest {
		if _, ok := has[w]; !ok {
			has[w] = struct{}{}
			s.reply(l, w)
		}
	}
}

// specAnswer is one work in an answer.
type specAnswer struct {
	*answer
	work    *sourceWork
	begun   bool        // it had its turn: Message is called again if the broker refused it for now
	counted bool        // it was published
	next    *specAnswer // the next answer that is parked at the same work
}

func (a *specAnswer) Message() (cloudevents.Message, error) {
	m, err := a.work.message(a)
	if m.Event != nil && !a.counted {
		a.counted = true
		a.sent.Add(1)
		a.work.source.metrics.CountAnswer(peer.Sent)
	}
	return m, err
}

func (a *specAnswer) Settled(err error) {
	if err != nil && a.counted {
		a.sent.Add(-1) // the agent must not wait for it
	}
	if errors.Is(err, cloudevents.ErrConnectionLost) {
		a.lost.Store(true)
	}
	a.work.Settled(err)
}

// parkLocked delays the event until its work is stored. The end marker waits for it: an agent that
// has received the end marker treats works that were not in the answer as gone.
func (a *specAnswer) parkLocked() {
	a.parked++
	a.next, a.work.parked = a.work.parked, a
}

// resume queues the events that were parked at the work. The work is stored now, or it was removed
// and its events send nothing.
func (w *sourceWork) resume() {
	s := w.source
	for a := w.parked; a != nil; a = w.parked {
		w.parked, a.next = a.next, nil
		a.answer.parked--
		if a.round != s.round {
			continue // its connection has ended; the next one begins a new resync
		}
		s.engine.Enqueue(engine.LaneBulk, a)
		if a.answer.parked == 0 && a.end != nil {
			s.engine.Enqueue(engine.LaneBulk, a.end)
			a.end = nil
		}
	}
}

// endMarker is the event that marks the end of an answer.
type endMarker struct {
	*answer
	source  *Source
	cluster *sourceCluster
	begun   bool // it had its turn
}

func (e *endMarker) Message() (cloudevents.Message, error) {
	s := e.source
	if !e.due() {
		return cloudevents.Message{}, nil
	}
	r := &codec.StatusResync{
		Header: s.header(e.cluster.name), Scope: codec.ScopeListed, Chunk: codec.Chunk{Count: int(e.sent.Load())},
	}
	r.ResyncID = e.resyncID
	return peer.Encode(s.options.Profile, r)
}

// due reports whether the end marker must be sent now. It waits for parked events. A source that
// may lack works sends no end marker: after InventoryComplete, the agents send their lists again. A
// Store has all works that agents can have, unless it is new and empty.
func (e *endMarker) due() bool {
	s := e.source
	s.cache.Lock()
	defer s.cache.Unlock()
	if !e.begun {
		e.begun = true
		e.cluster.answers.begun()
	}
	if e.parked > 0 {
		e.end = e
		return false
	}
	stored := s.options.Store != nil && (s.restored || s.cache.Has(e.cluster.name))
	return e.round == s.round && !e.lost.Load() && (s.complete || stored) && s.inventoryLocked(e.cluster).Reliable()
}

func (e *endMarker) Settled(err error) {
	if errors.Is(err, cloudevents.ErrConnectionLost) {
		e.lost.Store(true)
	}
}
