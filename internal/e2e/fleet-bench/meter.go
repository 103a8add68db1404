// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// kinds are the kinds of events. A resync is a list of works, or a request for a list. Digests are
// also the heartbeats of agents.
var kinds = []string{"spec", "status", "resync", "digest", "presence"}

// kindOf returns the kind of an event of either profile.
func kindOf(m cloudevents.Message) string {
	switch eventType := m.Event.Type(); {
	case codec.IsPresence(m.Event):
		return "presence"
	case codec.IsDigest(m.Event):
		return "digest"
	case strings.Contains(eventType, "resync_request"),
		strings.Contains(eventType, "resync.requested"):
		return "resync"
	case strings.Contains(eventType, ".status."):
		return "status"
	}
	return "spec"
}

// traffic has the number of published events of one kind, their bytes of data, and the largest
// data.
type traffic struct{ events, bytes, largest int }

// meter counts the connections and the events of a fleet. Each event is counted once, when it is
// published. A process without agents counts the events that it receives too. Its methods may be
// called from any goroutine.
type meter struct {
	connects atomic.Int64
	incoming bool // received events are counted

	mu     sync.Mutex
	events map[string]traffic // by kind
	last   time.Time          // when the last event was published or received, except for heartbeats
}

// reset returns the events since the last call.
func (m *meter) reset() map[string]traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	m.events = map[string]traffic{}
	return events
}

// lists returns the number of lists since the last reset.
func (m *meter) lists() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events["resync"].events
}

// lastEvent returns when the last event was published or received, except for heartbeats.
func (m *meter) lastEvent() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

func (m *meter) published(message cloudevents.Message) { m.count(message, true) }
func (m *meter) received(message cloudevents.Message)  { m.count(message, m.incoming) }

func (m *meter) count(message cloudevents.Message, counts bool) {
	kind, size := kindOf(message), len(message.Event.DataEncoded)
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind != "digest" && kind != "presence" {
		m.last = time.Now()
	}
	if counts {
		t := m.events[kind]
		m.events[kind] = traffic{t.events + 1, t.bytes + size, max(t.largest, size)}
	}
}

// link is a transport that counts its traffic and can be cut.
type link struct {
	cloudevents.Transport
	meter *meter

	mu   sync.Mutex
	conn cloudevents.Conn
}

// Connect implements [cloudevents.Transport].
func (l *link) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	receive := o.Receive
	o.Receive = func(m cloudevents.Message) {
		receive(m)
		l.meter.received(m)
	}
	conn, err := l.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	l.meter.connects.Add(1)
	return &meteredConn{conn, l.meter}, nil
}

// cut closes the connection. Its user connects again.
func (l *link) cut() {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

type meteredConn struct {
	cloudevents.Conn
	meter *meter
}

// Publish implements [cloudevents.Conn].
func (c *meteredConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	c.meter.published(m)
	return c.Conn.Publish(ctx, m, done)
}
