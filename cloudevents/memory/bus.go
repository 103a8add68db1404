// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/topicfilter"
)

// ErrDisconnected is the error of connections that [Bus.Disconnect] has ended, and of Connect until
// [Bus.Reconnect].
var ErrDisconnected = errors.New("the memory bus is disconnected")

// Bus is an in-process broker. Its methods may be called from any goroutine.
type Bus struct {
	mu        sync.Mutex
	subs      topicfilter.Tree[*conn]
	conns     map[*conn]struct{}
	down      bool
	flow      chan struct{} // closed while messages flow
	limit     int
	intercept func(cloudevents.Message, func(cloudevents.Message))
	round     uint64 // counts routed messages; see conn.round
}

// New returns a bus without connections. It owns no goroutine; each connection has two, until it is
// closed.
func New() *Bus {
	b := &Bus{subs: topicfilter.NewTree[*conn](), conns: map[*conn]struct{}{}, flow: make(chan struct{})}
	close(b.flow)
	return b
}

// Transport returns a new transport for one source or agent on this bus.
func (b *Bus) Transport() *Transport { return &Transport{bus: b} }

// Disconnect ends every connection, including messages in flight, and makes Connect fail with
// [ErrDisconnected] until [Bus.Reconnect].
func (b *Bus) Disconnect() {
	b.mu.Lock()
	b.down = true
	conns := slices.Collect(maps.Keys(b.conns))
	b.mu.Unlock()
	for _, c := range conns {
		c.end(ErrDisconnected)
	}
}

// Reconnect accepts new connections again.
func (b *Bus) Reconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = false
}

// Stall stops the routing of messages: no message is acknowledged or added to a receiver's queue,
// while connections stay open. [Bus.Resume] ends it.
func (b *Bus) Stall() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.flow:
		b.flow = make(chan struct{})
	default: // stalled already
	}
}

// Resume ends [Bus.Stall]; without one it does nothing.
func (b *Bus) Resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.flow:
	default:
		close(b.flow)
	}
}

// SetMaxPacketSize sets the largest message, in bytes of topic, attributes and data, that the bus
// accepts from now on. Defaults to 0, which means no limit.
func (b *Bus) SetMaxPacketSize(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = bytes
}

// Intercept calls f with every message published from now on, instead of its delivery; f calls
// deliver with the messages for the receivers. It may call deliver never (a loss), more than once,
// with another message, or later, from another goroutine (a delay, a change of order). Receivers
// refuse a message without a valid event. Nil ends interception.
//
// The message is acknowledged when f returns. f is called one at a time for each publishing
// connection, in order, and concurrently for several; it may block, but a connection's Close waits
// for it. deliver waits while a receiver's queue is full, unless the publishing connection has
// ended.
func (b *Bus) Intercept(f func(m cloudevents.Message, deliver func(cloudevents.Message))) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.intercept = f
}

func (b *Bus) attach(c *conn) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return ErrDisconnected
	}
	b.conns[c] = struct{}{}
	for _, f := range c.filters {
		b.subs.Add(f, c)
	}
	return nil
}

// detach removes c; it receives no messages that are routed later.
func (b *Bus) detach(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
	for _, f := range c.filters {
		b.subs.Remove(f, c)
	}
}

func (b *Bus) gate() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flow
}

func (b *Bus) maxPacketSize() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

func (b *Bus) interceptor() func(cloudevents.Message, func(cloudevents.Message)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.intercept
}

// receivers appends to buf the connections that receive a message on topic, each once.
func (b *Bus) receivers(topic string, buf []*conn) []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round++
	b.subs.Match(topic, func(c *conn) {
		if c.round != b.round {
			c.round = b.round
			buf = append(buf, c)
		}
	})
	return buf
}
