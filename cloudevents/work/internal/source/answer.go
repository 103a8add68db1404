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
	cluster *sourceCluster
	open    []*answer // with events to queue
	size    int64     // bytes charged to the cluster, at least the size of open
	queued  *answer   // has an event in the outbox
}

// replyLocked adds a work to an answer. If the list has only a part of the works, it skips a work
// that may be on its way to the agent.
func (a *answers) replyLocked(l *agentList, w *sourceWork) {
	if !l.answer.part || !w.underWayLocked() {
		a.replyNewLocked(l, w)
	}
}

// replyNewLocked is replyLocked for a version that was never sent.
func (a *answers) replyNewLocked(l *agentList, w *sourceWork) {
	c := a.cluster
	if l.given() {
		return
	}
	size := l.size(1) - l.size(0)
	if !c.account.Charge(size) {
		l.lost.Store(true) // its end marker must not be sent
		c.droppedLocked()
		c.refuseEntryLocked(peer.Unusable(peer.RefusedBudget, "send an answer to cluster %q: %w",
			c.name, c.account.ErrFull()))
		return
	}
	a.size += size
	if w.confirmed { // the list shows that the agent does not have it
		c.delivery.unconfirmLocked(w)
	}
	a.addLocked(&l.answer)
	l.works = append(l.works, w)
	a.advanceLocked()
}

// endLocked adds the end of an answer.
func (a *answers) endLocked(e *endMarker) {
	if e.given() {
		return
	}
	a.addLocked(e.answer)
	e.last = e
	a.advanceLocked()
}

// addLocked adds an answer to open, unless it is in open already.
func (a *answers) addLocked(one *answer) {
	if len(one.works) == 0 && one.last == nil {
		a.open = append(a.open, one)
	}
}

// Settled implements [engine.Item] for the end marker.
func (a *answer) Settled(err error) {
	if errors.Is(err, cloudevents.ErrConnectionLost) {
		a.lost.Store(true)
	}
}

// given reports whether the answer was given up.
func (a *answer) given() bool { return a.over || a.lost.Load() }

// advanceLocked queues the next event, unless an event is queued already.
func (a *answers) advanceLocked() {
	if a.queued != nil && !a.queued.lost.Load() {
		return
	}
	a.queued = nil
	a.giveUpLocked()
	if len(a.open) == 0 {
		return
	}
	one := a.open[0]
	for one.part && len(one.works) > 1 && one.works[0].sentSinceLocked() {
		one.works[0] = nil
		one.works = one.works[1:]
	}
	var it engine.Item = one.last
	if d := &a.cluster.delivery; len(one.works) > 0 {
		if !d.opensLocked() { // wait until the agent confirms more, or events count as lost
			return
		}
		d.answeredLocked(one.works[0])
		it = &specAnswer{answer: one, work: one.works[0]}
		one.works[0] = nil
		one.works = one.works[1:]
	} else {
		one.last = nil
	}
	if len(one.works) == 0 && one.last == nil {
		a.open = slices.Delete(a.open, 0, 1)
		a.recountLocked()
	}
	a.queued = one
	a.cluster.engine.Enqueue(engine.LaneBulk, it)
}

// giveUpLocked drops the answers that were given up.
func (a *answers) giveUpLocked() {
	n := len(a.open)
	if a.open = slices.DeleteFunc(a.open, (*answer).given); len(a.open) != n {
		a.recountLocked()
	}
}

// recountLocked charges the cluster for the remaining answers.
func (a *answers) recountLocked() {
	size := int64(0)
	for _, one := range a.open {
		size += one.size(0)
	}
	a.size = a.cluster.account.Set(a.size, size)
}

// size returns the estimated bytes of an answer with n more works.
func (a *answer) size(n int) int64 {
	if n += len(a.works); n == 0 {
		return 0
	}
	return peer.ListCost + peer.ReplyCost*int64(n)
}

// begunLocked is called when the queued event has its turn.
func (a *answers) begunLocked() {
	a.queued = nil
	a.advanceLocked()
}

// dropAllLocked drops all answers.
func (a *answers) dropAllLocked() {
	a.open, a.queued = nil, nil
	a.recountLocked()
}

// supersedeLocked drops earlier answers to an agent that has now listed all its works. Two
// processes of an agent may run at a time: works that remain in dropped answers to the other
// process are added to this answer.
func (a *answers) supersedeLocked(l *agentList) {
	var rest []*sourceWork
	for _, old := range a.open {
		if old == &l.answer || old.session == l.session && !old.whole {
			continue
		}
		if old.session != l.session {
			rest = append(rest, old.works...)
		}
		old.over, old.works, old.last = true, nil, nil
	}
	a.giveUpLocked()
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
			a.replyLocked(l, w)
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
		a.work.cluster.metrics.CountAnswer(peer.Sent)
	}
	return m, err
}

func (a *specAnswer) Settled(err error) {
	if err != nil && a.counted {
		a.sent.Add(-1) // the agent must not wait for it
	}
	a.answer.Settled(err)
	a.work.Settled(err)
}

// parkLocked delays the event until its work is stored. The end marker waits for it: an agent that
// has received the end marker treats works that were not in the answer as gone.
func (a *specAnswer) parkLocked() {
	a.parked++
	a.next, a.work.parked = a.work.parked, a
}

// resumeLocked queues the events that were parked at the work. The work is stored now, or it was
// removed and its events send nothing.
func (w *sourceWork) resumeLocked() {
	c := w.cluster
	for a := w.parked; a != nil; a = w.parked {
		w.parked, a.next = a.next, nil
		a.answer.parked--
		if a.round != c.records.round {
			continue // its connection has ended; the next one begins a new resync
		}
		c.engine.Enqueue(engine.LaneBulk, a)
		if a.answer.parked == 0 && a.end != nil {
			c.engine.Enqueue(engine.LaneBulk, a.end)
			a.end = nil
		}
	}
}

// endMarker is the event that marks the end of an answer.
type endMarker struct {
	*answer
	cluster *sourceCluster
	begun   bool // it had its turn
}

func (e *endMarker) Message() (cloudevents.Message, error) {
	if !e.due() {
		return cloudevents.Message{}, nil
	}
	c := e.cluster
	return peer.Encode(c.options.Profile, &codec.StatusResync{
		Header: c.header(c.name, e.resyncID), Scope: codec.ScopeListed, Chunk: codec.Chunk{Count: int(e.sent.Load())},
	})
}

// due reports whether the end marker must be sent now. It waits for parked events. A source that
// may lack works sends no end marker: after InventoryComplete, the agents send their lists again. A
// Store has all works that agents can have, unless it is new and empty.
func (e *endMarker) due() bool {
	c, r := e.cluster, e.cluster.records
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.begun {
		e.begun = true
		c.answers.begunLocked()
	}
	if e.parked > 0 {
		e.end = e
		return false
	}
	stored := c.options.Store != nil && (r.restored || r.cache.Has(c.name))
	return e.round == r.round && !e.lost.Load() && (r.complete || stored) && c.inventoryLocked().Reliable()
}
