// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/buffer"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/wait"
)

// liveStreak is the number of items of LaneLive that may overtake the first of LaneBulk, so that
// answers make progress also under load.
const liveStreak = 16

type publication struct {
	item Item
	lane Lane
	size int       // its share of the window; 0 without a window
	sent time.Time // when size was counted
}

type liveState struct {
	since  time.Duration // when it was queued; 0 without metrics
	sent   int           // messages without acknowledgement
	phase  phase
	denied bool // the broker has refused the item and has not accepted it since
}

// phase is the place where an item of LaneLive waits for its next publication.
type phase int

const (
	phaseNone      phase = iota // the item does not wait
	phaseQueued                 // in outbox.queues
	phasePostponed              // in outbox.postponed: the broker refused it for now
	phaseKept                   // for the next connection: the broker refused it
)

// outbox contains the items that wait for publication or for their acknowledgement.
type outbox struct {
	clock     clock.PassiveClock
	mu        sync.Mutex
	queues    [lanes]buffer.TypedRingGrowing[Item]
	waiting   [lanes]int // items in queues
	inflight  [lanes]int
	postponed [lanes][]Item // refused for now, in order
	live      map[Item]*liveState
	denied    int // number of denied items in live
	streak    int // items of LaneLive since the last one of LaneBulk
	window    window
	logged    map[Item]struct{} // refused items, so that each refusal is logged once
	online    bool
	broken    bool // a request of the connection was dropped, so it does not make the engine ready
	metrics   *metrics
	wake      wait.Signal // there are items to send, or the outbox became idle
}

func newOutbox(c clock.PassiveClock) *outbox {
	return &outbox{clock: c, live: map[Item]*liveState{}, logged: map[Item]struct{}{}, wake: wait.NewSignal()}
}

// add queues an item. While offline, it drops items of LaneControl and LaneBulk.
func (o *outbox) add(lane Lane, it Item) {
	o.mu.Lock()
	if lane != LaneLive && !o.online {
		o.mu.Unlock()
		o.metrics.gaveUp(1)
		it.Settled(cloudevents.ErrConnectionLost)
		return
	}
	added := true
	if lane == LaneLive {
		added = o.addLiveLocked(it)
	} else {
		o.pushLocked(lane, it)
	}
	o.mu.Unlock()
	if added {
		o.wake.Set()
	}
}

// addLiveLocked queues an item of LaneLive, unless it waits for its publication already.
func (o *outbox) addLiveLocked(it Item) bool {
	st := o.live[it]
	if st == nil {
		st = &liveState{}
		o.live[it] = st
	}
	switch st.phase {
	case phaseQueued, phasePostponed:
		return false
	case phaseNone:
		st.since = o.metrics.uptime()
	case phaseKept: // a refused item keeps its time
	}
	o.queueLocked(it, st)
	return true
}

func (o *outbox) pushLocked(lane Lane, it Item) {
	o.queues[lane].WriteOne(it)
	o.waiting[lane]++
}

func (o *outbox) queueLocked(it Item, st *liveState) {
	st.phase = phaseQueued
	o.pushLocked(LaneLive, it)
}

func (o *outbox) next() (publication, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lane, bulk := LaneControl, o.waiting[LaneBulk] > 0 && o.window.open()
	switch {
	case o.waiting[LaneControl] > 0:
	case o.waiting[LaneLive] > 0 && (o.streak < liveStreak || !bulk):
		lane = LaneLive
		o.streak++
	case bulk:
		lane = LaneBulk
		o.streak = 0
	default:
		return publication{}, false
	}
	it, _ := o.queues[lane].ReadOne()
	o.waiting[lane]--
	o.inflight[lane]++
	if lane == LaneLive {
		st := o.live[it]
		st.phase = phaseNone
		st.sent++
	}
	return publication{item: it, lane: lane}, true
}

func (o *outbox) sized(p *publication, size int) {
	if p.lane != LaneBulk {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p.size, p.sent = o.window.add(size), o.clock.Now()
}

type outcome int

const (
	acknowledged outcome = iota
	interrupted          // the connection ended first
	refused              // the broker refused it: keep an item of LaneLive for the next connection
	postponed            // the broker refused it for now: try again on this connection
	unsendable           // it cannot be encoded or is too large: another attempt would fail as well
)

// settle records the end of one publication. It reports whether the item has ended, and whether to
// log a refusal.
func (o *outbox) settle(p publication, how outcome) (ended, log bool) {
	it, lane := p.item, p.lane
	o.mu.Lock()
	o.inflight[lane]--
	var roundTrip time.Duration
	if how == acknowledged {
		roundTrip = o.clock.Since(p.sent)
	}
	opens := p.size > 0 && o.window.remove(p.size, roundTrip)
	if how == postponed && !o.online {
		how = interrupted // it would never be published from outbox.postponed
	}
	log = o.shouldLogLocked(it, how)
	switch {
	case lane == LaneLive:
		ended = o.settleLiveLocked(it, how)
	case how == postponed:
		o.postponed[lane] = append(o.postponed[lane], it)
	default:
		ended = true
		o.broken = o.broken || lane == LaneControl && (how == interrupted || how == unsendable && required(it))
	}
	if ended {
		o.forgetLocked(it)
	}
	idle := o.inflight[LaneControl] == 0 || o.inflight[LaneLive] == 0
	o.mu.Unlock()
	if idle || opens || !ended {
		o.wake.Set()
	}
	return ended, log
}

// shouldLogLocked reports whether to log an outcome: unsendable, or the first refusal of the item.
func (o *outbox) shouldLogLocked(it Item, how outcome) bool {
	switch how {
	case unsendable:
		return true
	case refused, postponed:
		_, known := o.logged[it]
		o.logged[it] = struct{}{}
		return !known
	case acknowledged:
		o.forgetLocked(it)
	}
	return false
}

// forgetLocked makes sure that the next refusal of an item is logged.
func (o *outbox) forgetLocked(it Item) {
	if len(o.logged) > 0 { // logged is mostly empty, and this runs for each event
		delete(o.logged, it)
	}
}

func (o *outbox) settleLiveLocked(it Item, how outcome) bool {
	st := o.live[it]
	st.sent--
	switch how {
	case interrupted:
		if st.phase == phaseNone || st.phase == phaseKept {
			o.queueLocked(it, st)
		}
		return false
	case refused:
		o.denyLocked(st, true)
		if st.phase == phaseNone {
			st.phase = phaseKept
		}
		return false
	case acknowledged:
		o.denyLocked(st, false)
		if st.phase == phaseKept && st.sent == 0 { // the refused message may be newer than this one
			o.queueLocked(it, st)
			return false
		}
	case postponed:
		if st.phase == phaseNone || st.phase == phaseKept {
			st.phase = phasePostponed
			o.postponed[LaneLive] = append(o.postponed[LaneLive], it)
		}
		return false
	}
	if st.phase != phaseNone || st.sent > 0 {
		return how == unsendable
	}
	o.denyLocked(st, false)
	delete(o.live, it)
	return true
}

// denyLocked records whether the broker refuses an item.
func (o *outbox) denyLocked(st *liveState, on bool) {
	switch {
	case on && !st.denied:
		o.denied++
	case !on && st.denied:
		o.denied--
	}
	st.denied = on
}

func (o *outbox) hasPostponed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.postponed[:], func(items []Item) bool { return len(items) > 0 })
}

func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for lane, items := range o.postponed {
		for _, it := range items {
			if Lane(lane) == LaneLive {
				o.queueLocked(it, o.live[it])
			} else {
				o.pushLocked(Lane(lane), it)
			}
		}
		o.postponed[lane] = nil
	}
}

// connecting opens LaneControl and LaneBulk and queues refused items again.
func (o *outbox) connecting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.online, o.broken = true, false
	o.window.fastest = 0 // it may be another broker
	for it, st := range o.live {
		if st.phase == phaseKept {
			o.queueLocked(it, st)
		}
	}
}

func (o *outbox) disconnected() {
	o.release() // the next connection publishes postponed items of LaneLive
	o.mu.Lock()
	o.online = false
	var dropped []Item
	for _, lane := range []Lane{LaneControl, LaneBulk} {
		for o.waiting[lane] > 0 {
			it, _ := o.queues[lane].ReadOne()
			o.waiting[lane]--
			o.forgetLocked(it)
			dropped = append(dropped, it)
		}
	}
	o.mu.Unlock()
	o.metrics.gaveUp(len(dropped))
	for _, it := range dropped {
		it.Settled(cloudevents.ErrConnectionLost)
	}
}

func (o *outbox) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.live)
}

// admits does not count items that the broker refuses: otherwise they would use the room of others
// until the access rules change.
func (o *outbox) admits(it Item, limit int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.live)-o.denied < limit || o.live[it] != nil
}

func (o *outbox) controlIdle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.broken && o.idleLocked(LaneControl)
}

func (o *outbox) drained() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idleLocked(LaneLive)
}

func (o *outbox) idleLocked(lane Lane) bool {
	return o.waiting[lane] == 0 && o.inflight[lane] == 0 && len(o.postponed[lane]) == 0
}
