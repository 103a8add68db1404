// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
)

func (s *suite) troubleChecks() []check {
	return []check{
		{"LinkCut", s.linkCut},
		{"DoneOnceWhenLinksAreCut", s.doneOnce},
		{"CloseDropsUnacknowledged", s.closeDropsUnacknowledged},
		{"CloseWithUnresponsiveBroker", s.closeFrozen},
	}
}

// linkCut checks that the end of the link ends the connection with a reason, and that another
// connection works.
func (s *suite) linkCut(t *testing.T) {
	cutter := need[Cutter](t, s)
	transport := s.claimed(t)
	topic := root(t)
	c := s.connectWith(t, clientOptions{transport: transport}, topic)
	cutter.Cut(t)
	awaitClosed(t, "the end of the connection", c.conn.Done())
	reason := c.conn.Err()
	if reason == nil {
		t.Error("Err is nil after the link was cut")
	}
	if c.send(t.Context(), topic, event("late"), uncalled(t)) == nil {
		t.Error("Publish on an ended connection returned nil")
	}
	c.close()
	if got := c.conn.Err(); !errors.Is(got, reason) {
		t.Errorf("Close changed the reason from %v to %v", reason, got)
	}
	again := s.connectWith(t, clientOptions{transport: transport}, topic)
	again.publish(topic, event("again"))
	again.awaitCount(1)
}

// doneOnce checks that done is called exactly once for each Publish that returned nil, even if the
// link ends.
func (s *suite) doneOnce(t *testing.T) {
	cutter := need[Cutter](t, s)
	topic := root(t)
	const rounds, publishers, most = 5, 4, 5000
	for round := range rounds {
		c := s.connect(t, topic)
		var mu sync.Mutex
		var accepted []*acks
		var group sync.WaitGroup
		for range publishers {
			group.Go(func() {
				for range most {
					a := newAcks(1)
					if err := c.send(t.Context(), topic, event("x"), a.done(0)); err != nil {
						return
					}
					mu.Lock()
					accepted = append(accepted, a)
					mu.Unlock()
				}
			})
		}
		c.await("some messages", func(r []cloudevents.Message, _ []string) bool { return len(r) > 20*round })
		cutter.Cut(t)
		group.Wait()
		awaitClosed(t, "the end of the connection", c.conn.Done())
		for i, a := range accepted {
			if err := a.await(t)[0]; err != nil && !errors.Is(err, cloudevents.ErrConnectionLost) {
				t.Errorf("message %d: done got %v, want nil or cloudevents.ErrConnectionLost", i, err)
			}
		}
		c.close()
		for _, a := range accepted {
			a.verifyOnce(t)
		}
	}
}

// closeDropsUnacknowledged checks that Close drops unacknowledged messages and calls done with an error.
func (s *suite) closeDropsUnacknowledged(t *testing.T) {
	staller := need[Staller](t, s)
	const count = 10
	topic := root(t)
	c := s.connect(t)
	defer staller.Stall(t)()
	acks := c.start(topic, numbered("", count)...)
	c.close()
	if pending := acks.pending(); pending > 0 {
		t.Errorf("after Close, %d messages are still waiting for done", pending)
	}
	for i, err := range acks.await(t) {
		if !errors.Is(err, cloudevents.ErrConnectionLost) {
			t.Errorf("message %d: done got %v, want cloudevents.ErrConnectionLost", i, err)
		}
	}
	acks.verifyOnce(t)
}

// closeFrozen checks that Close does not wait for a broker that does not answer, even with much
// data left to write.
func (s *suite) closeFrozen(t *testing.T) {
	staller := need[Staller](t, s)
	topic := root(t)
	c := s.connect(t, topic)
	defer staller.Stall(t)()
	large := event("large")
	large.SetDataContentType("text/plain")
	large.DataEncoded = make([]byte, 512<<10)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 200 { // 100 MiB: more than all buffers on the way can store
			if err := c.send(t.Context(), topic, large, func(error) {}); err != nil {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(300 * time.Millisecond): // Publish waits for room
	}
	start := time.Now()
	c.close()
	if took := time.Since(start); took > 3*time.Second { // one second, and more on a slow machine
		t.Errorf("Close took %v with a broker that does not answer", took)
	}
	awaitClosed(t, "Publish to return after Close", ended)
}
