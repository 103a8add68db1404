// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
)

// Kind is the kind of an event.
type Kind int

// The kinds of events. A resync is a list of works or their digest, or a request for a list.
const (
	Spec Kind = iota
	Status
	Resync
	Presence
	kinds
)

// Kinds are the names of the kinds.
var Kinds = [kinds]string{"spec", "status", "resync", "presence"}

// kindOf returns the kind of an event of either profile.
func kindOf(e *ce.Event) Kind {
	switch eventType := e.Type(); {
	case codec.IsPresence(e):
		return Presence
	case codec.IsDigest(e), strings.Contains(eventType, "resync_request"),
		strings.Contains(eventType, "resync.requested"):
		return Resync
	case strings.Contains(eventType, ".status."):
		return Status
	}
	return Spec
}

// Traffic has the number of published events of one kind, their bytes of data, and the largest
// data.
type Traffic struct {
	Events, Bytes, Largest int64
}

// Meter counts the published events and the connections of a fleet. Each event is counted once,
// when it is published. All methods may be called from any goroutine.
type Meter struct {
	events, bytes, largest [kinds]atomic.Int64
	connects               atomic.Int64
	last                   atomic.Int64 // when the last event was published or received, as Unix nanoseconds
}

// Connects returns the number of connections so far.
func (m *Meter) Connects() int64 { return m.connects.Load() }

// Last returns when the last event was published or received.
func (m *Meter) Last() time.Time { return time.Unix(0, m.last.Load()) }

// Reset returns the counters and sets them to 0.
func (m *Meter) Reset() [kinds]Traffic {
	var all [kinds]Traffic
	for k := range all {
		all[k] = Traffic{Events: m.events[k].Swap(0), Bytes: m.bytes[k].Swap(0), Largest: m.largest[k].Swap(0)}
	}
	return all
}

func (m *Meter) published(message cloudevents.Message) {
	k, size := kindOf(message.Event), int64(len(message.Event.DataEncoded))
	m.events[k].Add(1)
	m.bytes[k].Add(size)
	for {
		was := m.largest[k].Load()
		if size <= was || m.largest[k].CompareAndSwap(was, size) {
			break
		}
	}
	m.last.Store(time.Now().UnixNano())
}

// link is a transport that counts its traffic and can be cut.
type link struct {
	cloudevents.Transport
	meter *Meter

	mu   sync.Mutex
	conn cloudevents.Conn
}

// Connect implements [cloudevents.Transport].
func (l *link) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	receive := o.Receive
	o.Receive = func(m cloudevents.Message) {
		receive(m)
		l.meter.last.Store(time.Now().UnixNano())
	}
	conn, err := l.Transport.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	l.meter.connects.Add(1)
	return &meteredConn{Conn: conn, meter: l.meter}, nil
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
	meter *Meter
}

// Publish implements [cloudevents.Conn].
func (c *meteredConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	c.meter.published(m)
	return c.Conn.Publish(ctx, m, done)
}
