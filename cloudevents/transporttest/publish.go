// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
)

func (s *suite) publishChecks() []check {
	return []check{
		{"Pipelining", s.pipelines},
		{"ConcurrentPublishers", s.concurrent},
		{"PublishInsideReceive", s.insideReceive},
		{"PublishToSelfInsideReceive", s.toSelf},
		{"TooLarge", s.tooLarge},
		{"InvalidTopics", s.unpublishable},
		{"WindowFull", s.windowFull},
		{"PublishAfterClose", s.publishAfterClose},
	}
}

func (s *suite) pipelines(t *testing.T) {
	const count = 16
	staller := need[Staller](t, s)
	topic := root(t)
	receiver, publisher := s.connect(t, topic), s.connect(t)
	resume := staller.Stall(t)
	defer resume()
	acks := publisher.start(topic, numbered("", count)...)
	if pending := acks.pending(); pending != count {
		t.Errorf("%d messages of %d were acknowledged by a broker that does not answer", count-pending, count)
	}
	resume()
	acks.succeed(t)
	receiver.awaitCount(count)
	acks.verifyOnce(t)
}

func (s *suite) concurrent(t *testing.T) {
	const publishers, each = 16, 200
	topic := root(t)
	receiver, publisher := s.connect(t, topic+"/+"), s.connect(t)
	acks := newAcks(publishers * each)
	var group sync.WaitGroup
	for p := range publishers {
		group.Go(func() {
			for i := range each {
				to, e := fmt.Sprintf("%s/%d", topic, p), event(fmt.Sprintf("%d/%d", p, i))
				if err := publisher.send(t.Context(), to, e, acks.done(p*each+i)); err != nil {
					t.Errorf("Publish: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	acks.succeed(t)
	verifyOrder(t, receiver.awaitCount(publishers*each), func(p string) string { return topic + "/" + p })
}

// insideReceive checks that a receiver can answer each message from within Receive without a
// deadlock, also with thousands of messages in flight.
func (s *suite) insideReceive(t *testing.T) {
	const count = 5000
	topic := root(t)
	var answerer *client
	ready := make(chan struct{})
	answerer = s.connectWith(t, clientOptions{receive: func(m cloudevents.Message) {
		<-ready
		if err := answerer.send(t.Context(), topic+"/pong", m.Event, func(error) {}); err != nil {
			t.Errorf("Publish from within Receive: %v", err)
		}
	}}, topic+"/ping")
	close(ready)
	asker := s.connect(t, topic+"/pong")
	asker.publish(topic+"/ping", numbered("", count)...)
	asker.awaitCount(count)
}

// toSelf checks that a client can receive its own answers and answer them again.
func (s *suite) toSelf(t *testing.T) {
	const chains, length = 50, 40
	topic := root(t)
	var c *client
	ready := make(chan struct{})
	c = s.connectWith(t, clientOptions{receive: func(m cloudevents.Message) {
		<-ready
		var chain, step int
		if _, err := fmt.Sscanf(m.Event.ID(), "%d-%d", &chain, &step); err != nil {
			t.Errorf("event %q: %v", m.Event.ID(), err)
		}
		if step++; step == length {
			return
		}
		next := event(fmt.Sprintf("%d-%d", chain, step))
		if err := c.send(t.Context(), topic, next, func(error) {}); err != nil {
			t.Errorf("Publish from within Receive: %v", err)
		}
	}}, topic)
	close(ready)
	for chain := range chains {
		c.publish(topic, event(fmt.Sprintf("%d-0", chain)))
	}
	c.awaitCount(chains * length)
}

func (s *suite) tooLarge(t *testing.T) {
	const limit = 8192
	transport := claim(t, need[Limiter](t, s).Limited(t, limit))
	topic := root(t)
	c := s.connectWith(t, clientOptions{transport: transport}, topic)
	if got := c.conn.MaxPacketSize(); got != limit {
		t.Errorf("MaxPacketSize is %d, want %d", got, limit)
	}
	sized := func(bytes int) *ce.Event {
		e := event("sized")
		e.SetDataContentType("application/json")
		e.DataEncoded = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
		return e
	}
	refused := func(e *ce.Event) int {
		t.Helper()
		err := c.send(t.Context(), topic, e, uncalled(t))
		var tooLarge *cloudevents.TooLargeError
		if !errors.As(err, &tooLarge) {
			t.Fatalf("Publish of a message over the limit: %v, want a *cloudevents.TooLargeError", err)
		}
		if tooLarge.Topic != topic || tooLarge.Limit != limit || tooLarge.Size <= limit {
			t.Errorf("got %+v, want topic %q, limit %d and a size above it", tooLarge, topic, limit)
		}
		return tooLarge.Size
	}
	overhead := refused(sized(limit)) - limit // the same for similar sizes
	if got := refused(sized(limit - overhead + 1)); got != limit+1 {
		t.Errorf("a message of one byte too many has size %d, want %d", got, limit+1)
	}
	c.publish(topic, sized(limit-overhead), event("after"))
	c.awaitCount(2)
	if err := c.conn.Err(); err != nil {
		t.Errorf("the connection ended: %v", err)
	}
}

func (s *suite) unpublishable(t *testing.T) {
	topic := root(t)
	c := s.connect(t, topic)
	for _, bad := range []string{"", topic + "/+", topic + "/#", topic + "\x00"} {
		err := c.send(t.Context(), bad, event("bad"), uncalled(t))
		if err == nil || errors.Is(err, cloudevents.ErrConnectionLost) {
			t.Errorf("Publish on topic %q returned %v, want an error about the message", bad, err)
		}
	}
	c.publish(topic, event("after"))
	c.awaitCount(1)
	if err := c.conn.Err(); err != nil {
		t.Errorf("the connection ended: %v", err)
	}
}

// windowFull checks that Publish waits while the window of the broker is full, until there is room
// or its context ends.
func (s *suite) windowFull(t *testing.T) {
	const most = 70_000 // MQTT's largest window is 65,535
	staller := need[Staller](t, s)
	topic := root(t)
	publisher := s.connect(t)
	resume := staller.Stall(t)
	defer resume()
	acks := newAcks(most)
	accepted := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	progress := make(chan struct{}, most)
	result := make(chan error, 1)
	go func() {
		for i := range most {
			if err := publisher.send(ctx, topic, event(fmt.Sprint(i)), acks.done(i)); err != nil {
				result <- err
				return
			}
			progress <- struct{}{}
		}
		result <- nil
	}()
	for blocked := false; !blocked; {
		select {
		case <-progress:
			accepted++
		case <-time.After(300 * time.Millisecond): // no progress: Publish waits for room
			blocked = true
		}
	}
	if accepted == most {
		t.Fatalf("%d messages were accepted by a broker that does not answer", most)
	}
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Publish returned %v, want context.Canceled", err)
		}
	case <-time.After(patience):
		t.Fatal("Publish still waits although its context has ended")
	}
	for len(progress) > 0 {
		<-progress
		accepted++
	}
	resume()
	publisher.publish(topic, event("the window has room again"))
	acks.verifyOnce(t)
	if pending := acks.pending(); pending != most-accepted {
		t.Errorf("done was called for %d messages, want the %d that were accepted", most-pending, accepted)
	}
}

func (s *suite) publishAfterClose(t *testing.T) {
	c := s.connect(t)
	c.close()
	err := c.send(t.Context(), root(t), event("late"), uncalled(t))
	if !errors.Is(err, cloudevents.ErrConnectionLost) {
		t.Errorf("Publish on a closed connection returned %v, want one that wraps ErrConnectionLost", err)
	}
}
