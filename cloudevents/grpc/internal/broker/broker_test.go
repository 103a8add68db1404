// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package broker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

const kib = 1 << 10

// message costs n bytes.
func message(topic string, n int) grpcwire.Message {
	m := grpcwire.Message{Topic: topic}
	m.Event = make([]byte, n-m.Cost())
	return m
}

func subscribe(t *testing.T, b *broker.Broker, window int, filters ...string) *broker.Subscription {
	t.Helper()
	parsed, err := broker.ParseFilters(filters...)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Subscribe("", parsed, window)
	t.Cleanup(s.Close)
	return s
}

// publish publishes messages of n bytes until one is refused, and returns the number of accepted
// messages.
func publish(t *testing.T, b *broker.Broker, topic string, n, most int) int {
	t.Helper()
	for i := range most {
		if err := b.Publish("", message(topic, n)); errors.Is(err, broker.ErrFull) {
			return i
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return most
}

// take returns the topics of the messages that s can take now.
func take(t *testing.T, s *broker.Subscription, bytes, most int) []string {
	t.Helper()
	batch, err := s.Take(nil, bytes, most)
	if err != nil {
		t.Fatal(err)
	}
	topics := []string{}
	for _, m := range batch {
		topics = append(topics, m.Topic)
	}
	return topics
}

func release(t *testing.T, s *broker.Subscription, n uint64) {
	t.Helper()
	if !s.Release(n) {
		t.Errorf("Release(%d) returned false", n)
	}
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 10 * kib, TotalBytes: 1 << 30, Stall: time.Hour})
	slow, other := subscribe(t, b, 0, "slow/#"), subscribe(t, b, 0, "#")
	defer other.Close()
	if got := publish(t, b, "slow/x", kib, 100); got != 10 {
		t.Errorf("%d messages were accepted, want 10", got)
	}
	if got := len(take(t, slow, 1<<20, 100)); got != 10 {
		t.Fatalf("took %d messages, want 10", got)
	}
	if got := publish(t, b, "slow/x", kib, 100); got != 0 {
		t.Errorf("%d messages were accepted although no message was released", got)
	}
	release(t, slow, 4)
	other.Close()
	if got := publish(t, b, "slow/x", kib, 100); got != 4 {
		t.Errorf("%d messages were accepted after the release of 4", got)
	}
	if slow.Release(100) {
		t.Error("more messages were released than taken")
	}
}

// TestLargeMessageFitsEmptyQueue checks that a message that is larger than the queue is delivered.
func TestLargeMessageFitsEmptyQueue(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: kib, TotalBytes: kib, Stall: time.Hour})
	s := subscribe(t, b, kib, "t")
	if got := publish(t, b, "t", 100*kib, 2); got != 1 {
		t.Errorf("%d large messages were accepted, want 1", got)
	}
	if got := len(take(t, s, 1, 10)); got != 1 {
		t.Errorf("took %d messages, want 1", got)
	}
}

// TestFullQueueRefusesOnlyItsMessages checks that another subscriber of the same topic receives a
// message that one queue has no room for, and that other topics are not affected.
func TestFullQueueRefusesOnlyItsMessages(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 2 * kib, TotalBytes: 1 << 30, Stall: time.Hour})
	subscribe(t, b, 0, "a")
	second, third := subscribe(t, b, 0, "+"), subscribe(t, b, 0, "b")
	if got := publish(t, b, "a", kib, 2); got != 2 {
		t.Fatalf("%d messages were accepted, want 2", got)
	}
	release(t, second, uint64(len(take(t, second, 1<<20, 10))))
	if err := b.Publish("", message("a", kib)); !errors.Is(err, broker.ErrFull) {
		t.Errorf("Publish returned %v, want ErrFull", err)
	}
	if err := b.Publish("", message("b", kib)); err != nil {
		t.Errorf("Publish to another subscriber returned %v", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, take(t, second, 1<<20, 10)); diff != "" {
		t.Errorf("the second subscriber (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, take(t, third, 1<<20, 10)); diff != "" {
		t.Errorf("the third subscriber (-want +got):\n%s", diff)
	}
}

// TestTotalLeavesEachSubscriberAShare checks that a few full queues do not stop others.
func TestTotalLeavesEachSubscriberAShare(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 1 << 20, TotalBytes: 2 << 20, Stall: time.Hour})
	for i := range 4 {
		subscribe(t, b, 0, fmt.Sprint("frozen", i))
		publish(t, b, fmt.Sprint("frozen", i), 16*kib, 1000)
	}
	s := subscribe(t, b, 0, "alive")
	for range 3 {
		if got := publish(t, b, "alive", 16*kib, 1000); got != 4 {
			t.Errorf("%d messages were accepted, want 4, which are 64 KiB", got)
		}
		release(t, s, uint64(len(take(t, s, 1<<20, 10))))
	}
}

// TestClosedSubscriptionFreesTotal checks that messages of an ended subscriber no longer count.
func TestClosedSubscriptionFreesTotal(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 1 << 20, TotalBytes: 1 << 20, Stall: time.Hour})
	for range 3 {
		s := subscribe(t, b, 0, "t")
		if got := publish(t, b, "t", 64*kib, 100); got != 16 {
			t.Errorf("%d messages were accepted, want 16", got)
		}
		take(t, s, 100*kib, 10)
		s.Close()
		if err := b.Publish("", message("t", kib)); err != nil {
			t.Errorf("Publish without a subscriber returned %v", err)
		}
	}
}

func TestWindowBoundsMessagesInFlight(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 1 << 20, TotalBytes: 1 << 20, Stall: time.Hour})
	s := subscribe(t, b, 10*kib, "t")
	publish(t, b, "t", 4*kib, 10)
	for _, want := range []int{2, 0} {
		if got := len(take(t, s, 1<<20, 100)); got != want {
			t.Errorf("took %d messages, want %d", got, want)
		}
	}
	release(t, s, 1)
	select {
	case <-s.Wake():
	default:
		t.Error("Release did not wake the subscriber")
	}
	if got := len(take(t, s, 1<<20, 100)); got != 1 {
		t.Errorf("took %d messages after the release of one, want 1", got)
	}
	select {
	case <-s.Wake():
		t.Error("the subscriber is awake although the window is full")
	default:
	}
}

func TestStalledSubscriptionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Limits{QueueBytes: 4 * kib, TotalBytes: 1 << 20, Stall: time.Minute})
		slow, stalled, idle := subscribe(t, b, 0, "t"), subscribe(t, b, 0, "t"), subscribe(t, b, 0, "u")
		publish(t, b, "u", kib, 1)
		take(t, slow, 1<<20, 100)
		for range 3 {
			publish(t, b, "t", kib, 100)
			time.Sleep(59 * time.Second)
			take(t, slow, 1<<20, 100)
			release(t, slow, 1)
		}
		synctest.Wait()
		for name, row := range map[string]struct {
			s    *broker.Subscription
			want error
		}{"slow": {slow, nil}, "stalled": {stalled, broker.ErrStalled}, "idle": {idle, nil}} {
			if _, err := row.s.Take(nil, 0, 0); !errors.Is(err, row.want) {
				t.Errorf("%s: ended with %v, want %v", name, err, row.want)
			}
		}
	})
}

// TestFinishDeliversQueue checks that a finished subscription ends when its messages are released,
// and receives no later messages.
func TestFinishDeliversQueue(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 1 << 20, TotalBytes: 1 << 20, Stall: time.Hour})
	s := subscribe(t, b, 0, "t")
	publish(t, b, "t", kib, 2)
	s.Finish()
	publish(t, b, "t", kib, 1)
	if got := len(take(t, s, 1<<20, 100)); got != 2 {
		t.Errorf("took %d messages, want the 2 of before Finish", got)
	}
	release(t, s, 1)
	select {
	case <-s.Ended():
		t.Error("the subscription ended before its messages were released")
	default:
	}
	release(t, s, 1)
	<-s.Ended()
	if _, err := s.Take(nil, 0, 0); !errors.Is(err, broker.ErrFinished) {
		t.Errorf("ended with %v, want ErrFinished", err)
	}
}

func TestFiltersAreBounded(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = "t"
	}
	for name, filters := range map[string][]string{
		"levels": {strings.Repeat("a/", 32) + "a"}, "length": {strings.Repeat("a", 5000)}, "number": many, "empty": {""},
	} {
		if _, err := broker.ParseFilters(filters...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, topic := range []string{"", "a/+", "\xff", strings.Repeat("a", 5000)} {
		if err := broker.CheckTopic(topic); err == nil {
			t.Errorf("topic %.10q: no error", topic)
		}
	}
}

// TestFloodLeavesRoomForOthers checks that publishers which fill a queue leave room for others.
func TestFloodLeavesRoomForOthers(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 60 * kib, TotalBytes: 1 << 30, Stall: time.Hour})
	s := subscribe(t, b, 0, "t")
	flood := func(publisher string) (accepted int) {
		for range 1000 {
			if b.Publish(publisher, message("t", kib)) == nil {
				accepted++
			}
		}
		return accepted
	}
	for _, row := range []struct {
		publisher string
		want      int
	}{{"first", 30}, {"second", 15}, {"first", 0}, {"third", 8}} {
		if got := flood(row.publisher); got != row.want {
			t.Errorf("publisher %q: %d messages were accepted, want %d", row.publisher, got, row.want)
		}
	}
	take(t, s, 1<<20, 1000)
	release(t, s, 53)
	if got := flood("first"); got != 30 {
		t.Errorf("after the queue was read, %d messages were accepted, want 30", got)
	}
}

// TestUsersShareTotal checks that a user with many subscribers leaves room for others.
func TestUsersShareTotal(t *testing.T) {
	b := broker.New(broker.Limits{QueueBytes: 1 << 20, TotalBytes: 4 << 20, Stall: time.Hour})
	parsed, err := broker.ParseFilters("greedy")
	if err != nil {
		t.Fatal(err)
	}
	for range 16 {
		t.Cleanup(b.Subscribe("greedy", parsed, 0).Close)
	}
	subscribe(t, b, 0, "other")
	publish(t, b, "greedy", 100*kib, 100)
	if got := publish(t, b, "other", 100*kib, 10); got != 10 {
		t.Errorf("%d messages to another user were accepted, want 10", got)
	}
}
