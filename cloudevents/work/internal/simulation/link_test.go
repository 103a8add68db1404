// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// faults describes how messages are lost, repeated and delayed while it is on.
type faults struct {
	seed uint64
	on   atomic.Bool
	// silent makes losses silent. Otherwise each loss breaks the receiver's connection.
	silent bool
	// fifo keeps the order of one receiver's messages. Otherwise late messages are overtaken.
	fifo bool
	// late delays some messages by up to fifteen seconds.
	late bool
	// log is called with each message that arrives.
	log func(who string, m cloudevents.Message)
}

// link is the connection between the broker and a process, and all processes that replace it. It
// can be cut. While faults are on, it loses, repeats and delays messages, each independently: a
// broadcast may reach only some processes. A late message reaches the process and connection that
// exist when it arrives.
//
// The fate of a message depends only on the seed, the link, the topic and the message's number
// there. It does not depend on the order in which goroutines run.
type link struct {
	name   string
	faults *faults

	mu     sync.Mutex
	cut    bool
	conn   *linkConn
	counts map[string]uint64 // messages by topic
}

func newLink(name string, w *faults) *link {
	return &link{name: name, faults: w, counts: map[string]uint64{}}
}

// transport returns the transport of a process on the link.
func (l *link) transport(t cloudevents.Transport) cloudevents.Transport { return &linkTransport{t, l} }

type linkTransport struct {
	cloudevents.Transport
	link *link
}

// linkConn is a connection that may end for its receiver before it ends for the broker.
type linkConn struct {
	cloudevents.Conn
	link    *link
	receive func(cloudevents.Message)
	turn    sync.Mutex // receivers get one message at a time
	dead    bool
}

func (p *linkTransport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	l := p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the link is cut")
	}
	c := &linkConn{link: l, receive: o.Receive}
	o.Receive = func(m cloudevents.Message) { l.receive(c, m) }
	conn, err := p.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	c.Conn, l.conn = conn, c
	return c, nil
}

// Close stops deliveries to the receiver and closes the connection.
func (c *linkConn) Close() error {
	c.kill()
	return c.Conn.Close()
}

func (c *linkConn) kill() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.dead = true
}

func (c *linkConn) deliver(m cloudevents.Message) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if !c.dead {
		c.link.faults.log(c.link.name+" receives:", m)
		c.receive(m)
	}
}

// setCut cuts or restores the link. A cut ends the connection and prevents new connections.
func (l *link) setCut(on bool) {
	l.mu.Lock()
	l.cut = on
	l.mu.Unlock()
	if on {
		l.drop()
	}
}

// drop ends the connection; the process connects again.
func (l *link) drop() {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // the connection ends even if Close returns an error
	}
}

// receive delivers, loses, repeats or delays a message, as the faults decide.
func (l *link) receive(c *linkConn, m cloudevents.Message) {
	w := l.faults
	// A late presence is from a process that is dead in this simulation. If the clock of that
	// process was ahead, the presence would stop the owner's writes.
	if !w.on.Load() || codec.IsPresence(m.Event) {
		c.deliver(m)
		return
	}
	random := l.random(m.Topic)
	delay := time.Duration(random.IntN(1500)) * time.Millisecond
	if w.late && random.IntN(12) == 0 {
		delay *= 10
	}
	switch lot := random.IntN(20); {
	case lot < 2:
		l.lose(c)
	case lot < 4:
		c.deliver(m)
		c.deliver(m)
	case lot < 7 && w.fifo:
		time.Sleep(min(delay, time.Second)) // later messages wait as well
		c.deliver(m)
	case lot < 7:
		go l.deliverLate(delay, m)
	case lot < 8 && !w.fifo:
		c.deliver(m)
		go l.deliverLate(delay, m)
	default:
		c.deliver(m)
	}
}

func (l *link) random(topic string) *rand.Rand {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[topic]++
	h := fnv.New64a()
	_, _ = h.Write([]byte(l.name + " " + topic))
	return rand.New(rand.NewPCG(l.faults.seed, h.Sum64()+l.counts[topic]*0x9e3779b97f4a7c15))
}

// lose drops a message. Unless losses are silent, it also drops the connection.
func (l *link) lose(c *linkConn) {
	if l.faults.silent {
		return
	}
	c.kill()
	go func() { _ = c.Close() }() // Close waits for this goroutine
}

func (l *link) deliverLate(delay time.Duration, m cloudevents.Message) {
	time.Sleep(delay)
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.deliver(m)
	}
}
