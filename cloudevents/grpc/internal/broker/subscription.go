// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/topicfilter"
	"github.com/spokewire/sdk-go/internal/wait"
)

// ErrStalled is the end of a subscription that did not release messages while its queue was full.
var ErrStalled = errors.New("the subscriber does not read: its queue is full")

// ErrFinished is the end of a subscription after Finish.
var ErrFinished = errors.New("the broker is shutting down")

// Subscription is one subscriber with its queue. Take and Release are called by one goroutine each.
type Subscription struct {
	broker  *Broker
	user    string
	filters []topicfilter.Filter
	window  int
	round   uint64        // the last Broker.round that chose this subscriber; guarded by Broker.mu
	wake    wait.Signal   // Take may return another result
	ended   chan struct{} // closed by end

	mu       sync.Mutex
	queue    []entry
	taken    []charge       // of the messages that are taken and not released, in order
	bytes    int            // of queue and taken
	inFlight int            // bytes of taken
	shares   map[string]int // bytes of queue and taken by publisher, for those with a name
	stalled  *time.Timer    // runs while the queue is full
	finished bool
	err      error
}

type entry struct {
	message grpcwire.Message
	charge  charge
}

// charge is the cost of a message, and its publisher.
type charge struct {
	publisher string
	cost      int
}

func newSubscription(b *Broker, user string, filters []topicfilter.Filter, window int) *Subscription {
	return &Subscription{
		broker: b, user: user, filters: filters, window: window, wake: wait.NewSignal(), ended: make(chan struct{}),
	}
}

// push queues a message. It returns false if there is no room for it. Messages for an ended
// subscription are dropped.
func (s *Subscription) push(publisher string, m grpcwire.Message) bool {
	c := charge{publisher, m.Cost()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.finished {
		return true
	}
	if !s.roomLocked(c) {
		if s.stalled == nil {
			s.stalled = time.AfterFunc(s.broker.limits.Stall, func() { s.end(ErrStalled) })
		}
		return false
	}
	s.bytes += c.cost
	s.shareLocked(c, 1)
	s.queue = append(s.queue, entry{m, c})
	s.wake.Set()
	return true
}

// roomLocked charges the total of the broker if there is room.
func (s *Subscription) roomLocked(c charge) bool {
	free := s.broker.limits.QueueBytes - s.bytes - c.cost
	if s.bytes > 0 && (free < 0 || c.publisher != "" && s.shares[c.publisher] > free) {
		return false
	}
	return s.broker.total.add(s.user, c.cost, s.bytes == 0 || s.bytes+c.cost <= guaranteed)
}

// shareLocked adds a charge to the share of its publisher, or removes it.
func (s *Subscription) shareLocked(c charge, sign int) {
	if c.publisher == "" {
		return
	}
	if s.shares == nil {
		s.shares = map[string]int{}
	}
	if s.shares[c.publisher] += sign * c.cost; s.shares[c.publisher] == 0 {
		delete(s.shares, c.publisher)
	}
}

// Wake returns the signal that Take may return messages, or an error.
func (s *Subscription) Wake() wait.Signal { return s.wake }

// Ended returns a channel that is closed at the end of the subscription.
func (s *Subscription) Ended() <-chan struct{} { return s.ended }

// Take appends queued messages to buf while they have less than the given number of bytes together
// and fit into the window. It does not wait. It returns the reason of the end if the subscription
// has ended.
func (s *Subscription) Take(buf []grpcwire.Message, bytes, most int) ([]grpcwire.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return buf, s.err
	}
	i := 0
	for ; s.fitsLocked(i) && i < most && bytes > 0; i++ {
		e := s.queue[i]
		bytes -= e.charge.cost
		s.inFlight += e.charge.cost
		s.taken = append(s.taken, e.charge)
		buf = append(buf, e.message)
		s.queue[i] = entry{}
	}
	if s.fitsLocked(i) {
		s.wake.Set()
	}
	if s.queue = s.queue[i:]; len(s.queue) == 0 {
		s.queue = nil
	}
	return buf, nil
}

// fitsLocked reports whether the queue has a message at index i that fits into the window.
func (s *Subscription) fitsLocked(i int) bool {
	return i < len(s.queue) &&
		(s.window == 0 || s.inFlight == 0 || s.inFlight+s.queue[i].charge.cost <= s.window)
}

// Release marks the oldest n taken messages as handled. It returns false if fewer are taken.
func (s *Subscription) Release(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return true
	}
	if n > uint64(len(s.taken)) {
		return false
	}
	freed := 0
	for _, c := range s.taken[:n] {
		freed += c.cost
		s.shareLocked(c, -1)
	}
	if s.taken = s.taken[n:]; len(s.taken) == 0 {
		s.taken = nil
	}
	s.bytes -= freed
	s.inFlight -= freed
	s.broker.total.remove(s.user, freed)
	if n > 0 && s.stalled != nil {
		s.stalled.Stop()
		s.stalled = nil
	}
	s.wake.Set()
	s.idleLocked()
	return true
}

// Finish lets the subscriber take and release its queued messages, and then ends the subscription
// with [ErrFinished]. Later messages are dropped.
func (s *Subscription) Finish() {
	s.broker.detach(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.idleLocked()
}

func (s *Subscription) idleLocked() {
	if s.finished && s.bytes == 0 {
		s.endLocked(ErrFinished)
	}
}

// Close removes the subscriber and drops its messages. It may be called more than once.
func (s *Subscription) Close() { s.end(errors.New("the subscription was closed")) }

// end ends the subscription; the first reason counts.
func (s *Subscription) end(err error) {
	s.broker.detach(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
}

func (s *Subscription) endLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.broker.total.remove(s.user, s.bytes)
	s.queue, s.taken, s.shares, s.bytes, s.inFlight = nil, nil, nil, 0, 0
	if s.stalled != nil {
		s.stalled.Stop()
		s.stalled = nil
	}
	close(s.ended)
	s.wake.Set()
}
