// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/wait"
)

// patience is the time limit for each wait of a check.
const patience = 2 * time.Minute

// client is a connection with its received messages.
type client struct {
	t    *testing.T
	conn cloudevents.Conn
	busy atomic.Bool // Receive or Refuse is running

	mu       sync.Mutex
	received []cloudevents.Message
	refused  []string // topics
	changed  wait.Broadcast
}

// clientOptions changes the defaults of a client.
type clientOptions struct {
	transport cloudevents.Transport     // default: a new one
	receive   func(cloudevents.Message) // called in Receive before the message is recorded
	commit    func(context.Context) error
	binary    *bool
}

func (s *suite) connect(t *testing.T, filters ...string) *client {
	t.Helper()
	return s.connectWith(t, clientOptions{}, filters...)
}

func (s *suite) connectWith(t *testing.T, o clientOptions, filters ...string) *client {
	t.Helper()
	if s.exact && (len(filters) > 1 || strings.ContainsAny(strings.Join(filters, ""), "+#$")) {
		t.Skipf("the broker does not have the topic filters %q", filters)
	}
	if o.transport == nil {
		o.transport = s.claimed(t)
	}
	c := &client{t: t}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel() // must not end the connection
	conn, err := o.transport.Connect(ctx, cloudevents.ConnectOptions{
		Filters: filters,
		Binary:  ptr.Deref(o.binary, s.binary),
		Receive: func(m cloudevents.Message) {
			c.enter()
			defer c.busy.Store(false)
			if o.receive != nil {
				o.receive(m)
			}
			c.record(func() { c.received = append(c.received, m) })
		},
		Commit: o.commit,
		Refuse: func(topic string, err error) {
			c.enter()
			defer c.busy.Store(false)
			if err == nil {
				t.Error("Refuse was called without an error")
			}
			c.record(func() { c.refused = append(c.refused, topic) })
		},
	})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	c.conn = conn
	t.Cleanup(func() { _ = conn.Close() })
	return c
}

func (s *suite) claimed(t *testing.T) cloudevents.Transport {
	t.Helper()
	return claim(t, s.harness.Transport(t))
}

func claim(t *testing.T, transport cloudevents.Transport) cloudevents.Transport {
	t.Helper()
	if err := transport.Claim("conformance"); err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return transport
}

// enter checks that calls of Receive and Refuse do not overlap.
func (c *client) enter() {
	if !c.busy.CompareAndSwap(false, true) {
		c.t.Error("Receive or Refuse was called while another call was running")
	}
}

func (c *client) record(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.changed.Wake()
}

// await waits until the condition holds for the received messages and the topics of refused ones.
func (c *client) await(what string, condition func([]cloudevents.Message, []string) bool) []cloudevents.Message {
	c.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		received, refused, changed := c.received, c.refused, c.changed.Next()
		c.mu.Unlock()
		if condition(received, refused) {
			return received
		}
		select {
		case <-changed:
		case <-timeout.C:
			c.t.Fatalf("waiting for %s: got %d messages and %d refusals in %v, at the end %q",
				what, len(received), len(refused), patience, ids(received[max(0, len(received)-10):]))
		}
	}
}

func (c *client) awaitIDs(want ...string) {
	c.t.Helper()
	c.await(fmt.Sprintf("the messages %q", want), func(received []cloudevents.Message, _ []string) bool {
		got := ids(received)
		return !slices.ContainsFunc(want, func(id string) bool { return !slices.Contains(got, id) })
	})
}

// awaitCount waits for n messages, and fails the test if there are more.
func (c *client) awaitCount(n int) []cloudevents.Message {
	c.t.Helper()
	received := c.await(fmt.Sprintf("%d messages", n), func(received []cloudevents.Message, _ []string) bool {
		return len(received) >= n
	})
	if len(received) > n {
		c.t.Fatalf("got %d messages, want %d", len(received), n)
	}
	return received
}

// snapshot returns the messages that were received so far.
func (c *client) snapshot() []cloudevents.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}

func (c *client) send(ctx context.Context, topic string, e *ce.Event, done func(error)) error {
	return c.conn.Publish(ctx, cloudevents.Message{Topic: topic, Event: e}, done)
}

// start publishes events in order and does not wait for acknowledgements.
func (c *client) start(topic string, events ...*ce.Event) *acks {
	c.t.Helper()
	acks := newAcks(len(events))
	for i, e := range events {
		if err := c.send(c.t.Context(), topic, e, acks.done(i)); err != nil {
			c.t.Fatalf("Publish of message %d on %q: %v", i, topic, err)
		}
	}
	return acks
}

func (c *client) publish(topic string, events ...*ce.Event) {
	c.t.Helper()
	c.start(topic, events...).succeed(c.t)
}

func (c *client) close() {
	c.t.Helper()
	if err := c.conn.Close(); err != nil {
		c.t.Errorf("Close: %v", err)
	}
}

// uncalled returns an argument for a Publish that must return an error.
func uncalled(t *testing.T) func(error) {
	return func(error) { t.Error("done was called although Publish returned an error") }
}

type acks struct {
	mu     sync.Mutex
	errs   []error
	called []int
	left   int
	all    chan struct{}
}

func newAcks(n int) *acks {
	return &acks{errs: make([]error, n), called: make([]int, n), left: n, all: make(chan struct{})}
}

func (a *acks) done(i int) func(error) {
	return func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.errs[i] = err
		if a.called[i]++; a.called[i] == 1 {
			if a.left--; a.left == 0 {
				close(a.all)
			}
		}
	}
}

// await waits until done was called for every message, and returns the arguments.
func (a *acks) await(t *testing.T) []error {
	t.Helper()
	select {
	case <-a.all:
	case <-time.After(patience):
		t.Fatalf("%d messages of %d were neither acknowledged nor dropped", a.pending(), len(a.errs))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.errs)
}

// succeed waits until all messages are acknowledged.
func (a *acks) succeed(t *testing.T) {
	t.Helper()
	for i, err := range a.await(t) {
		if err != nil {
			t.Fatalf("message %d was not acknowledged: %v", i, err)
		}
	}
	a.verifyOnce(t)
}

func (a *acks) pending() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// verifyOnce fails the test if done was called more than once for a message.
func (a *acks) verifyOnce(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, n := range a.called {
		if n > 1 {
			t.Errorf("done was called %d times for message %d", n, i)
		}
	}
}

func event(id string) *ce.Event {
	e := ce.New()
	e.SetID(id)
	e.SetType("io.spokewire.transporttest")
	e.SetSource("conformance")
	return &e
}

// numbered returns n events with the ids prefix0, prefix1 and so on.
func numbered(prefix string, n int) []*ce.Event {
	events := make([]*ce.Event, n)
	for i := range events {
		events[i] = event(fmt.Sprintf("%s%d", prefix, i))
	}
	return events
}

func ids(messages []cloudevents.Message) []string {
	list := make([]string, len(messages))
	for i, m := range messages {
		list[i] = m.Event.ID()
	}
	return list
}

// root returns a topic that no other check uses. It has a leading slash, as in the ManifestWork
// profile.
func root(t *testing.T) string {
	name := strings.NewReplacer("/", "-", "#", "-", "+", "-", " ", "-").Replace(t.Name())
	return "/" + name + "-" + uuid.NewString()
}

func awaitClosed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
}
