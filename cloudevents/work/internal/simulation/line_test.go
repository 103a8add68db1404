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

// weather describes how messages are lost, repeated and delayed while it is on.
type weather struct {
	seed uint64
	on   atomic.Bool
	// silent makes losses silent. Otherwise each loss breaks the receiver's connection.
	silent bool
	// fifo keeps the order of one receiver's messages. Otherwise late messages are overtaken.
	fifo bool
	// late delays some messages by up to fifteen seconds.
	late bool
	// tell is called with each message that arrives.
	tell func(who string, m cloudevents.Message)
}

// line is the link between the broker and a process, and all processes that replace it. It can be
// cut. In bad weather it loses, repeats and delays messages, each independently: a broadcast may
// reach only some processes. A late message reaches the process and connection that exist when it
// arrives.
//
// The fate of a message depends only on the seed, the line, the topic and the message's number
// there. It does not depend on the order in which goroutines run.
type line struct {
	name    string
	weather *weather

	mu     sync.Mutex
	cut    bool
	conn   *lineConn
	counts map[string]uint64 // messages by topic
}

func newLine(name string, w *weather) *line {
	return &line{name: name, weather: w, counts: map[string]uint64{}}
}

// plug returns the transport of a process on the line.
func (l *line) plug(t cloudevents.Transport) cloudevents.Transport { return &plug{t, l} }

type plug struct {
	cloudevents.Transport
	line *line
}

// lineConn is a connection that may end for its receiver before it ends for the broker.
type lineConn struct {
	cloudevents.Conn
	line    *line
	receive func(cloudevents.Message)
	turn    sync.Mutex // receivers get one message at a time
	dead    bool
}

func (p *plug) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the line is cut")
	}
	c := &lineConn{line: l, receive: o.Receive}
	o.Receive = func(m cloudevents.Message) { l.arrive(c, m) }
	conn, err := p.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	c.Conn, l.conn = conn, c
	return c, nil
}

// Close stops deliveries to the receiver and closes the connection.
func (c *lineConn) Close() error {
	c.kill()
	return c.Conn.Close()
}

func (c *lineConn) kill() {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.dead = true
}

func (c *lineConn) deliver(m cloudevents.Message) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if !c.dead {
		c.line.weather.tell(c.line.name+" receives:", m)
		c.receive(m)
	}
}

// setCut cuts or restores the line. A cut ends the connection and prevents new connections.
func (l *line) setCut(on bool) {
	l.mu.Lock()
	l.cut = on
	l.mu.Unlock()
	if on {
		l.drop()
	}
}

// drop ends the connection; the process connects again.
func (l *line) drop() {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // the connection ends even if Close returns an error
	}
}

// arrive delivers, loses, repeats or delays a message, as the weather decides.
func (l *line) arrive(c *lineConn, m cloudevents.Message) {
	w := l.weather
	// A late presence is from a process that is dead in this simulation. If the clock of that
	// process was ahead, the presence would stop the owner's writes.
	if !w.on.Load() || codec.IsPresence(m.Event) {
		c.deliver(m)
		return
	}
	random := l.lots(m.Topic)
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

func (l *line) lots(topic string) *rand.Rand {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[topic]++
	h := fnv.New64a()
	_, _ = h.Write([]byte(l.name + " " + topic))
	return rand.New(rand.NewPCG(l.weather.seed, h.Sum64()+l.counts[topic]*0x9e3779b97f4a7c15))
}

// lose drops a message. Unless losses are silent, it also drops the connection.
func (l *line) lose(c *lineConn) {
	if l.weather.silent {
		return
	}
	c.kill()
	go func() { _ = c.Close() }() // Close waits for this goroutine
}

func (l *line) deliverLate(delay time.Duration, m cloudevents.Message) {
	time.Sleep(delay)
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.deliver(m)
	}
}
