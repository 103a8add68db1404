// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cloudevents

import (
	"sync"
	"time"

	"k8s.io/utils/buffer"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
)

// Lane is the queue that an [Item] waits in.
type Lane int

const (
	// Control is for requests and whatever must go out before anything else. It is emptied when the
	// connection ends: the next connection begins with requests of its own.
	Control Lane = iota
	// Live is for news of works. An item in it is kept until the broker has acknowledged it, over any
	// number of connections, and waits there at most once: what changed meanwhile goes out together.
	Live
	// Bulk is for answers to requests, which had better be queued piece by piece: an item that enqueues the next when
	// its turn comes shares the lane with others. Live overtakes it, also on the way: little of it is not acknowledged
	// at any time. It is emptied when the connection ends.
	Bulk

	lanes = int(Bulk) + 1
)

// liveStreak is how many items of Live may overtake the first of Bulk, so that answers end also under load.
const liveStreak = 16

// Item is something to publish. It is encoded when its turn comes, so it says what is true then. Items are
// compared by identity, so implementations are pointers.
type Item interface {
	// Message returns what to publish. A message without an event means that there is nothing left to
	// say. It is called from one goroutine and may take locks that [Engine.Enqueue] is called under.
	Message() (Message, error)
	// Settled is called when the item has come to its end: with nil when the broker has acknowledged the
	// message, with [ErrConnectionLost] when an item of Control or Bulk was given up with its connection,
	// or with the reason why the message cannot be encoded or is refused for good. It is not called for
	// an item of Live whose connection ended, as that goes out again. It must not block.
	Settled(err error)
}

// Refusable is an [Item] of [Live] that wants to know when it has to wait for the next connection.
type Refusable interface {
	Item
	// Refused is called with the broker's reason each time that it refuses the item for another reason than a lack of
	// room. Settled follows when a later connection has brought the item to its end. It must not block.
	Refused(err error)
}

// Requirement is an [Item] of [Control] without which nothing comes, such as the request that a connection begins with.
// When the broker refuses it, for whatever reason, it is published again on the same connection; until it is taken the
// engine is not ready, and [Engine.Refused] says why.
type Requirement interface {
	Item
	// Required reports whether it is one.
	Required() bool
}

// required reports whether an item is a [Requirement].
func required(it Item) bool {
	r, ok := it.(Requirement)
	return ok && r.Required()
}

// turn is one publication of an item.
type turn struct {
	item Item
	lane Lane
	size int       // what it takes of a window, where there is one
	sent time.Time // and when that was
}

// liveState follows one item of the lane Live.
type liveState struct {
	since  time.Duration // when the news came, where there are metrics
	sent   int           // messages that are not acknowledged yet
	queued bool
	// refused holds an item that the broker would not take until the next connection.
	refused bool
	// denied is whether the broker has refused the item and has not taken it since.
	denied bool
	// postponed holds an item that the broker would not take now: it is in outbox.postponed.
	postponed bool
}

// outbox holds what waits to be published and what waits to be acknowledged.
type outbox struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	queues   [lanes]buffer.TypedRingGrowing[Item]
	waiting  [lanes]int
	live     map[Item]*liveState
	denied   int // of live
	streak   int
	inflight [lanes]int
	// window is that of Bulk.
	window window
	// postponed has what the broker refused for now, in order.
	postponed [lanes][]Item
	// told has the items whose refusal is known, so that it is logged once.
	told   map[Item]struct{}
	online bool
	// broken is whether a request of the connection was given up: it was not the one that got ready.
	broken  bool
	metrics *metrics
	// wake is set when there is something to send, or the outbox became idle.
	wake wait.Signal
}

func newOutbox(c clock.PassiveClock) *outbox {
	return &outbox{clock: c, live: map[Item]*liveState{}, told: map[Item]struct{}{}, wake: wait.NewSignal()}
}

// add queues an item. While offline, items of Control and Bulk are given up at once.
func (o *outbox) add(lane Lane, it Item) {
	o.mu.Lock()
	if lane != Live && !o.online {
		o.mu.Unlock()
		o.metrics.gaveUp(1)
		it.Settled(ErrConnectionLost)
		return
	}
	if lane == Live {
		st := o.live[it]
		if st == nil {
			st = &liveState{}
			o.live[it] = st
		}
		if st.queued || st.postponed { // either way its turn comes
			o.mu.Unlock()
			return
		}
		if !st.refused { // else its news is as old as before
			st.since = o.metrics.uptime()
		}
		st.queued, st.refused = true, false
	}
	o.push(lane, it)
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) push(lane Lane, it Item) {
	o.queues[lane].WriteOne(it)
	o.waiting[lane]++
}

func (o *outbox) signal() { o.wake.Set() }

// next takes the item whose turn it is.
func (o *outbox) next() (turn, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lane, bulk := Control, o.waiting[Bulk] > 0 && o.window.open()
	switch {
	case o.waiting[Control] > 0:
	case o.waiting[Live] > 0 && (o.streak < liveStreak || !bulk):
		lane = Live
		o.streak++
	case bulk:
		lane = Bulk
		o.streak = 0
	default:
		return turn{}, false
	}
	it, _ := o.queues[lane].ReadOne()
	o.waiting[lane]--
	o.inflight[lane]++
	if lane == Live {
		st := o.live[it]
		st.queued = false
		st.sent++
	}
	return turn{item: it, lane: lane}, true
}

// sized notes how many bytes of data the message of an item has.
func (o *outbox) sized(t *turn, size int) {
	if t.lane != Bulk {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.size, t.sent = o.window.take(size), o.clock.Now()
}

// outcome says how the publication of an item ended.
type outcome int

const (
	acknowledged outcome = iota
	interrupted          // the connection ended first
	refused              // the broker said no: keep an item of Live for the next connection
	postponed            // the broker said not now: try again on this connection
	hopeless             // it cannot be encoded or is too large: another attempt gives the same
)

// settle books the end of one publication. It reports whether the item has come to its end, and whether a
// refusal is news.
func (o *outbox) settle(t turn, how outcome) (ended, news bool) {
	it, lane := t.item, t.lane
	o.mu.Lock()
	o.inflight[lane]--
	opens := t.size > 0 && o.window.give(t.size, o.took(t, how))
	if how == postponed && !o.online {
		how = interrupted // what is postponed now would never have its turn
	}
	news = o.tell(it, how)
	switch {
	case lane == Live:
		ended = o.settleLive(it, how)
	case how == postponed:
		o.postponed[lane] = append(o.postponed[lane], it)
	default:
		ended = true
		o.broken = o.broken || lane == Control && (how == interrupted || how == hopeless && required(it))
	}
	if ended {
		o.forget(it)
	}
	idle := o.inflight[Control] == 0 || o.inflight[Live] == 0
	o.mu.Unlock()
	if idle || opens || !ended {
		o.signal()
	}
	return ended, news
}

// took is how long the broker took to acknowledge an event, or 0.
func (o *outbox) took(t turn, how outcome) time.Duration {
	if how != acknowledged {
		return 0
	}
	return o.clock.Since(t.sent)
}

// tell reports whether an outcome is a refusal, or the first of an item's.
func (o *outbox) tell(it Item, how outcome) bool {
	switch how {
	case hopeless:
		return true
	case refused, postponed:
		_, known := o.told[it]
		o.told[it] = struct{}{}
		return !known
	case acknowledged:
		o.forget(it)
	}
	return false
}

// forget makes the next refusal of an item news.
func (o *outbox) forget(it Item) {
	if len(o.told) > 0 { // mostly there is none, and this is done for each event
		delete(o.told, it)
	}
}

func (o *outbox) settleLive(it Item, how outcome) bool {
	st := o.live[it]
	st.sent--
	switch how {
	case interrupted:
		if !st.queued {
			st.queued = true
			o.push(Live, it)
		}
		return false
	case refused:
		o.deny(st, true)
		st.refused = !st.queued
		return false
	case acknowledged:
		o.deny(st, false)
		if st.refused && st.sent == 0 {
			// The broker has changed its mind, and what it refused may be newer than what it has just taken.
			st.refused, st.queued = false, true
			o.push(Live, it)
			return false
		}
	case postponed:
		if !st.queued && !st.postponed {
			st.postponed = true
			o.postponed[Live] = append(o.postponed[Live], it)
		}
		return false
	}
	if st.queued || st.sent > 0 || st.refused || st.postponed {
		return how == hopeless
	}
	o.deny(st, false)
	delete(o.live, it)
	return true
}

// deny notes whether the broker refuses an item.
func (o *outbox) deny(st *liveState, on bool) {
	switch {
	case on && !st.denied:
		o.denied++
	case !on && st.denied:
		o.denied--
	}
	st.denied = on
}

// hasPostponed reports whether there is something to release.
func (o *outbox) hasPostponed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, items := range o.postponed {
		if len(items) > 0 {
			return true
		}
	}
	return false
}

// release queues what was postponed again.
func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for lane, items := range o.postponed {
		for _, it := range items {
			if Lane(lane) == Live {
				st := o.live[it]
				st.postponed, st.queued = false, true
			}
			o.push(Lane(lane), it)
		}
		o.postponed[lane] = nil
	}
}

// connecting lets items of Control and Bulk in and gives refused items another chance.
func (o *outbox) connecting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.online, o.broken = true, false
	o.window.fastest = 0 // it may be another broker
	for it, st := range o.live {
		if st.refused {
			st.refused, st.queued = false, true
			o.push(Live, it)
		}
	}
}

// disconnected empties Control and Bulk.
func (o *outbox) disconnected() {
	o.release() // what of Live was postponed has its turn on the next connection
	o.mu.Lock()
	o.online = false
	var dropped []Item
	for _, lane := range []Lane{Control, Bulk} {
		for o.waiting[lane] > 0 {
			it, _ := o.queues[lane].ReadOne()
			o.waiting[lane]--
			o.forget(it)
			dropped = append(dropped, it)
		}
	}
	o.mu.Unlock()
	o.metrics.gaveUp(len(dropped))
	for _, it := range dropped {
		it.Settled(ErrConnectionLost)
	}
}

// pending is the number of live items that the broker has not acknowledged.
func (o *outbox) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.live)
}

// admits leaves out what the broker refuses: it would take the room of what the broker takes, for as long as its access
// rules stay as they are.
func (o *outbox) admits(it Item, limit int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.live)-o.denied < limit || o.live[it] != nil
}

// controlIdle reports whether all requests of this connection have been acknowledged.
func (o *outbox) controlIdle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting[Control] == 0 && o.inflight[Control] == 0 && len(o.postponed[Control]) == 0 && !o.broken
}

// drained reports whether no live item waits or is under way.
func (o *outbox) drained() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting[Live] == 0 && o.inflight[Live] == 0 && len(o.postponed[Live]) == 0
}
