// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
)

func (s *suite) lifecycleChecks() []check {
	return []check{
		{"ClaimOnce", s.claimOnce},
		{"ConnectWithEndedContext", s.endedContext},
		{"MalformedFilter", s.malformedFilter},
		{"ConnectionOutlivesContext", s.outlivesContext},
		{"Close", s.closes},
		{"CloseConcurrently", s.closesConcurrently},
		{"CloseWhileReceiving", s.closesWhileReceiving},
		{"ConnectAgain", s.connectsAgain},
	}
}

func (s *suite) claimOnce(t *testing.T) {
	transport := s.harness.Transport(t)
	if err := transport.Claim("first"); err != nil {
		t.Fatalf("Claim: %v", err)
	}
	for _, name := range []string{"second", "first"} {
		if err := transport.Claim(name); !errors.Is(err, cloudevents.ErrClaimed) {
			t.Errorf("another Claim(%q) returned %v, want cloudevents.ErrClaimed", name, err)
		}
	}
}

// options are for a connection that must fail.
func options(t *testing.T, filters ...string) cloudevents.ConnectOptions {
	return cloudevents.ConnectOptions{
		Filters: filters,
		Receive: func(m cloudevents.Message) { t.Errorf("received a message on topic %q", m.Topic) },
		Refuse:  func(topic string, err error) { t.Errorf("refused a message on topic %q: %v", topic, err) },
	}
}

func (s *suite) endedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	conn, err := s.claimed(t).Connect(ctx, options(t, root(t)))
	if err == nil {
		_ = conn.Close()
		t.Fatal("Connect succeeded although its context had ended")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Connect returned %v, want context.Canceled", err)
	}
}

func (s *suite) malformedFilter(t *testing.T) {
	for _, filter := range []string{"", "/a/#/b", "/a+", "$share/group"} {
		conn, err := s.claimed(t).Connect(t.Context(), options(t, root(t), filter))
		if err == nil {
			_ = conn.Close()
			t.Errorf("Connect granted the filter %q", filter)
		}
	}
}

func (s *suite) outlivesContext(t *testing.T) {
	topic := root(t)
	c := s.connect(t, topic) // connect ends the context of Connect
	c.publish(topic, event("after"))
	c.awaitCount(1)
}

// closes checks that after Close, Done is closed, Err is nil, and another Close does nothing.
func (s *suite) closes(t *testing.T) {
	c := s.connect(t, root(t))
	select {
	case <-c.conn.Done():
		t.Fatal("Done is closed although the connection lives")
	default:
	}
	if err := c.conn.Err(); err != nil {
		t.Errorf("Err of a living connection is %v, want nil", err)
	}
	for range 3 {
		c.close()
	}
	select {
	case <-c.conn.Done():
	default:
		t.Error("Done is not closed after Close")
	}
	if err := c.conn.Err(); err != nil {
		t.Errorf("Err after Close is %v, want nil", err)
	}
}

// closesConcurrently checks concurrent calls of Close while other goroutines publish. Each call
// returns after the connection has closed.
func (s *suite) closesConcurrently(t *testing.T) {
	topic := root(t)
	c := s.connect(t, topic)
	const publishers = 4
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			for {
				acks := newAcks(1)
				if c.send(t.Context(), topic, event("x"), acks.done(0)) != nil || acks.await(t)[0] != nil {
					return
				}
			}
		})
	}
	c.await("some messages", func(r []cloudevents.Message, _ []string) bool { return len(r) > 10 })
	for range 8 {
		group.Go(func() {
			c.close()
			select {
			case <-c.conn.Done():
			default:
				t.Error("Close returned before Done was closed")
			}
		})
	}
	group.Wait()
}

// closesWhileReceiving checks that Close waits for a running Receive, and that Receive is not
// called for queued messages.
func (s *suite) closesWhileReceiving(t *testing.T) {
	topic := root(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := s.connectWith(t, clientOptions{receive: func(cloudevents.Message) {
		once.Do(func() { close(entered) })
		<-leave
	}}, topic)
	s.connect(t).publish(topic, numbered("", 10)...)
	awaitClosed(t, "the first message", entered)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = c.conn.Close()
	}()
	awaitClosed(t, "the end of the connection", c.conn.Done())
	select {
	case <-closed:
		t.Error("Close returned while Receive was running")
	case <-time.After(10 * time.Millisecond):
	}
	close(leave)
	awaitClosed(t, "the return of Close", closed)
	if got := len(c.snapshot()); got != 1 {
		t.Errorf("Receive was called %d times, want only the call that was running at Close", got)
	}
}

func (s *suite) connectsAgain(t *testing.T) {
	transport := s.claimed(t)
	topic := root(t)
	for range 3 {
		c := s.connectWith(t, clientOptions{transport: transport}, topic)
		c.publish(topic, event("x"))
		c.awaitCount(1)
		c.close()
	}
}
