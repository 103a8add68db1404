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

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents"
)

func (s *suite) deliveryChecks() []check {
	return []check{
		{"Delivery", s.delivers},
		{"EventsArriveUnchanged", s.unchanged},
		{"OrderPerTopic", s.order},
		{"Filters", s.filters},
		{"SharedSubscription", s.shared},
		{"NothingRetained", s.retained},
		{"SlowReceiver", s.slowReceiver},
		{"AcknowledgeAfterReceive", s.ackAfterReceive},
		{"CommitAfterReceive", s.commits},
		{"AcknowledgeAfterCommit", s.ackAfterCommit},
		{"RefuseInvalidEvents", s.refuses},
	}
}

func (s *suite) delivers(t *testing.T) {
	topic := root(t)
	first, second, outsider := s.connect(t, topic), s.connect(t, topic), s.connect(t, topic+"/other")
	first.publish(topic, event("one"))
	first.publish(topic+"/other", event("sentinel"))
	for _, c := range []*client{first, second} {
		got := c.awaitCount(1)[0]
		if got.Topic != topic || got.Event.ID() != "one" {
			t.Errorf("got %q on topic %q, want %q on %q", got.Event.ID(), got.Topic, "one", topic)
		}
	}
	if got := ids(outsider.awaitCount(1)); got[0] != "sentinel" {
		t.Errorf("a subscriber of another topic got %v", got)
	}
}

// order checks that messages of one connection on one topic arrive in the order of Publish, also
// with other publishers.
func (s *suite) order(t *testing.T) {
	const publishers, each = 4, 1000
	topic := root(t)
	receiver := s.connect(t, topic)
	var group sync.WaitGroup
	for p := range publishers {
		publisher := s.connect(t)
		group.Go(func() {
			for _, e := range numbered(fmt.Sprintf("%d/", p), each) {
				if err := publisher.send(t.Context(), topic, e, func(error) {}); err != nil {
					t.Errorf("Publish: %v", err)
					return
				}
			}
		})
	}
	received := receiver.awaitCount(publishers * each)
	group.Wait()
	verifyOrder(t, received, func(string) string { return topic })
}

// verifyOrder fails the test unless the messages p/0, p/1 and so on of each publisher p are in
// order, and on its topic.
func verifyOrder(t *testing.T, received []cloudevents.Message, topic func(publisher string) string) {
	t.Helper()
	next := map[string]int{}
	for _, m := range received {
		p, _, _ := strings.Cut(m.Event.ID(), "/")
		if want := fmt.Sprintf("%s/%d", p, next[p]); m.Event.ID() != want || m.Topic != topic(p) {
			t.Fatalf("got message %q on topic %q, want %q on %q", m.Event.ID(), m.Topic, want, topic(p))
		}
		next[p]++
	}
}

func (s *suite) filters(t *testing.T) {
	base := root(t)
	table := []struct {
		filter, topic string
		matches       bool
		reason        string
	}{
		{"/a/b", "/a/b", true, "equal"},
		{"/a/b", "/a/c", false, "another level"},
		{"/a/b", "/a/b/c", false, "no wildcard, a longer topic"},
		{"/a/b/c", "/a/b", false, "no wildcard, a shorter topic"},
		{"/+/b", "/a/b", true, "+ is one level"},
		{"/+/b", "/a/a/b", false, "+ is not two levels"},
		{"/+", "/", true, "+ matches an empty level"},
		{"/a/+", "/a", false, "+ needs a level"},
		{"/+/+", "/a/b", true, "two wildcards"},
		{"/#", "/a/b/c", true, "# is any number of levels"},
		{"/a/#", "/a", true, "# matches its parent"},
		{"/a/#", "/ab", false, "# matches whole levels"},
		{"/sources/+/clusters/c1/manifests", "/sources/s/clusters/c1/manifests", true, "an agent's filter"},
		{"/sources/+/clusters/c1/manifests", "/sources/s/clusters/c10/manifests", false, "a cluster of a similar name"},
		{"/ü/+", "/ü/日本語", true, "Unicode"},
	}
	publisher := s.connect(t)
	for i, row := range table {
		// Each row has its own base, and one sentinel after it. A message that has not arrived
		// before the sentinel does not arrive.
		prefix := fmt.Sprintf("%s/%d", base, i)
		receiver := s.connect(t, prefix+row.filter, prefix+"-sentinel")
		publisher.publish(prefix+row.topic, event("message"))
		publisher.publish(prefix+"-sentinel", event("sentinel"))
		received := receiver.await("the sentinel", func(r []cloudevents.Message, _ []string) bool {
			return len(r) > 0 && r[len(r)-1].Event.ID() == "sentinel"
		})
		want := []string{"sentinel"}
		if row.matches {
			want = []string{"message", "sentinel"}
		}
		if diff := cmp.Diff(want, ids(received)); diff != "" {
			t.Errorf("filter %q, topic %q (%s) (-want +got):\n%s", row.filter, row.topic, row.reason, diff)
		}
	}
}

// shared checks that each message is delivered to one member of a share group, and to all other
// subscribers.
func (s *suite) shared(t *testing.T) {
	const count = 100
	topic := root(t)
	filter := "$share/group/" + topic + "/+"
	members := make(chan string, 2*count)
	hook := clientOptions{receive: func(m cloudevents.Message) { members <- m.Event.ID() }}
	first, second := s.connectWith(t, hook, filter), s.connectWith(t, hook, filter)
	other := s.connect(t, "$share/other/"+topic+"/+")
	alone := s.connect(t, topic+"/+")
	s.connect(t).publish(topic+"/x", numbered("", count)...)
	alone.awaitCount(count)
	other.awaitCount(count)
	timeout := time.After(patience)
	seen := map[string]bool{}
	for range count {
		select {
		case id := <-members:
			seen[id] = true
		case <-timeout:
			t.Fatalf("the members got %d messages, want %d", len(seen), count)
		}
	}
	if len(seen) != count {
		t.Errorf("the members got %d different messages, want %d", len(seen), count)
	}
	if len(first.snapshot()) == 0 || len(second.snapshot()) == 0 {
		t.Errorf("one member got all messages: the group does not share them")
	}
}

func (s *suite) retained(t *testing.T) {
	topic := root(t)
	publisher := s.connect(t, topic)
	publisher.publish(topic, event("early"))
	publisher.awaitCount(1) // a broker may acknowledge first and choose the receivers later
	receiver := s.connect(t, topic)
	publisher.publish(topic, event("late"))
	if diff := cmp.Diff([]string{"late"}, ids(receiver.awaitCount(1))); diff != "" {
		t.Errorf("a new subscriber (-want +got):\n%s", diff)
	}
}

// slowReceiver checks that each message is delivered at least once, even if the receiver is far
// behind.
func (s *suite) slowReceiver(t *testing.T) {
	const count = 10000
	topic := root(t)
	gate := make(chan struct{})
	receiver := s.connectWith(t, clientOptions{receive: func(cloudevents.Message) { <-gate }}, topic)
	publisher, events := s.connect(t), numbered("", count)
	first := publisher.start(topic, events[:count/2]...)
	close(gate)
	publisher.publish(topic, events[count/2:]...)
	first.succeed(t)
	for i, id := range ids(receiver.awaitCount(count)) {
		if want := fmt.Sprint(i); id != want {
			t.Fatalf("message %d is %q, want %q", i, id, want)
		}
	}
}

// ackAfterReceive checks that messages are delivered again if a crash interrupts their Receive, or
// if they were queued.
func (s *suite) ackAfterReceive(t *testing.T) {
	sessions := need[SessionKeeper](t, s)
	cutter := need[Cutter](t, s)
	topic := root(t)
	open := func(receive func(cloudevents.Message)) *client {
		transport := claim(t, sessions.Session(t, strings.Trim(topic, "/")))
		return s.connectWith(t, clientOptions{transport: transport, receive: receive}, topic)
	}
	entered, crashed := make(chan struct{}), make(chan struct{})
	first := open(func(m cloudevents.Message) {
		if m.Event.ID() == "2" {
			close(entered)
			<-crashed
		}
	})
	publisher := s.connect(t)
	publisher.publish(topic, numbered("", 5)...)
	awaitClosed(t, "the message during which the link is cut", entered)
	cutter.Cut(t)
	awaitClosed(t, "the end of the connection", first.conn.Done())
	close(crashed)
	first.close()
	// A broker may acknowledge messages before it forwards them, but it forwards the messages of
	// one client in order.
	forwarded := root(t)
	away := s.connect(t, forwarded)
	away.publish(topic, event("5"))
	away.publish(forwarded, event("6"))
	away.awaitCount(1)
	open(nil).awaitIDs("2", "3", "4", "5") // from the interrupted message on
}

// commits checks that Commit is called soon after the messages that it makes durable, in the
// goroutine of Receive, and not more often than messages arrive.
func (s *suite) commits(t *testing.T) {
	topic := root(t)
	const count = 500
	received, committed, commits := 0, 0, 0 // all in one goroutine, as the race detector checks
	all := make(chan struct{})
	receiver := s.connectWith(t, clientOptions{
		receive: func(cloudevents.Message) { received++ },
		commit: func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("Commit of a connection that goes on got a context that has ended: %v", ctx.Err())
			}
			commits++
			if committed = received; committed == count {
				close(all)
			}
			return nil
		},
	}, topic)
	receiver.publish(topic, numbered("", count)...)
	awaitClosed(t, "the Commit of what was received", all)
	receiver.close()
	if commits > count {
		t.Errorf("%d calls of Commit for %d messages", commits, count)
	}
}

// ackAfterCommit checks that messages are delivered again if Commit fails, and that the connection
// ends with the error of Commit.
func (s *suite) ackAfterCommit(t *testing.T) {
	topic := root(t)
	transport := s.claimed(t)
	sessions, keeps := s.harness.(SessionKeeper)
	open := func(commit func(context.Context) error) *client {
		if keeps {
			transport = claim(t, sessions.Session(t, strings.Trim(topic, "/")))
		}
		return s.connectWith(t, clientOptions{transport: transport, commit: commit}, topic)
	}
	reason := errors.New("the disk is full")
	first := open(func(context.Context) error { return reason })
	s.connect(t).publish(topic, numbered("", 3)...)
	awaitClosed(t, "the end of the connection", first.conn.Done())
	if err := first.conn.Err(); !errors.Is(err, reason) {
		t.Errorf("the connection ended with %v, want the error of Commit", err)
	}
	first.close()
	if keeps {
		open(func(context.Context) error { return nil }).awaitIDs("0", "1", "2")
	}
}

// refuses checks that a message that is not a CloudEvent is passed to Refuse, and that later
// messages are received.
func (s *suite) refuses(t *testing.T) {
	raw := need[RawPublisher](t, s)
	topic := root(t)
	receiver := s.connect(t, topic+"/#")
	payloads := []string{
		"", "hello", "{", `{"specversion":"1.0"}`, "\xff\xfe", `[]`,
		`{"specversion":"1.0","id":"","source":"","type":""}`,
	}
	for _, p := range payloads {
		raw.PublishRaw(t, topic+"/raw", []byte(p))
	}
	receiver.await("the refusals", func(_ []cloudevents.Message, refused []string) bool {
		return len(refused) == len(payloads)
	})
	for _, got := range receiver.refused {
		if got != topic+"/raw" {
			t.Errorf("refused something on topic %q, want %q", got, topic+"/raw")
		}
	}
	receiver.publish(topic+"/good", event("good"))
	receiver.awaitCount(1)
}
