// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// mostUncommitted is the largest number of handled events before Commit.
const mostUncommitted = 64

// read passes the events of the stream on.
func (c *conn) read() {
	defer c.beats.stop()
	if c.first != nil && !c.pass(*c.first) {
		return
	}
	for {
		var b grpcwire.Raw
		c.beats.start()
		err := c.stream.RecvMsg(&b)
		c.beats.stop()
		if errors.Is(err, io.EOF) {
			err = errors.New("the server ended the subscription")
		}
		if err != nil {
			c.end(fmt.Errorf("subscription: %w", err))
			return
		}
		if !c.pass(b) {
			return
		}
	}
}

// pass passes on one event. It reports whether the connection continues.
func (c *conn) pass(b grpcwire.Raw) bool {
	if grpcwire.IsHeartbeat(b) {
		c.beats.beat()
		return true
	}
	select {
	case c.inbox <- b:
		return true
	case <-c.life.Done():
		return false
	}
}

// receive handles events, and commits when no event is waiting.
func (c *conn) receive() {
	uncommitted := 0
	for {
		if uncommitted > 0 && uncommitted < mostUncommitted {
			select {
			case b := <-c.inbox:
				c.handle(b)
				uncommitted++
				continue
			default:
			}
		}
		if uncommitted > 0 {
			if err := c.commit(); err != nil {
				c.end(err)
				return
			}
			uncommitted = 0
		}
		select {
		case b := <-c.inbox:
			c.handle(b)
			uncommitted++
		case <-c.life.Done():
			return
		}
	}
}

func (c *conn) commit() error {
	if c.options.Commit == nil {
		return nil
	}
	return c.options.Commit(c.life)
}

func (c *conn) handle(b grpcwire.Raw) {
	e, err := grpcwire.ParseEvent(b)
	topic := ""
	if err == nil {
		if c.source != "" && text(e, attrSource) != "" {
			e.SetExtension(attrSource, c.source) // statuses of Maestro have its own source instead
		}
		if topic, err = Topic(e); err == nil {
			topic = c.client.topicOf(e, topic)
		}
	}
	switch {
	case c.life.Err() != nil:
	case err != nil:
		c.options.Refuse(topic, err)
	default:
		c.options.Receive(cloudevents.Message{Topic: topic, Event: e})
	}
}

// topicOf returns the topic of a received event. If [Client.sourceOf] returns another source, it sets
// the source of e.
func (c *Client) topicOf(e *ce.Event, topic string) string {
	source, ok := sourceLevel(topic)
	if !ok {
		return topic
	}
	actual := c.sourceOf(e, source)
	if actual == source {
		return topic
	}
	e.SetSource(actual)
	return "sources/" + actual + strings.TrimPrefix(topic, "sources/"+source)
}

// sourceLevel returns the source of a topic of one source and one cluster.
func sourceLevel(topic string) (source string, ok bool) {
	levels := strings.Split(topic, "/")
	if len(levels) != 5 || levels[0] != "sources" {
		return "", false
	}
	return levels[1], true
}

// keepList keeps a list of works that is published again by repeatRequests.
func (c *conn) keepList(list call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists != nil {
		list.done = func(error) {}
		c.lists[list.key] = list
	}
}

// repeatRequests publishes lists of works again after the first heartbeat. OCM's server confirms a
// subscription before it adds the subscriber: an answer in between is lost, and an equal state has
// no answer. The heartbeats begin when the subscriber was added.
func (c *conn) repeatRequests() {
	timer := time.NewTimer(quietTime)
	defer timer.Stop()
	select {
	case <-c.beats.first:
	case <-timer.C:
	case <-c.life.Done():
		return
	}
	c.mu.Lock()
	lists := c.lists
	c.lists = nil
	c.mu.Unlock()
	for _, list := range lists {
		if c.add(c.life, list) != nil {
			return
		}
	}
}

const (
	// callTimeout is the time limit for a call of Publish.
	callTimeout = 30 * time.Second
	// quietTime is the time after which a server without heartbeats has added a subscriber, and the
	// shortest time without heartbeats after which a server that sends them has failed.
	quietTime = 30 * time.Second
	// longestQuietTime is the longest such time, for a server with a long interval.
	longestQuietTime = 10 * quietTime
	// missedBeats is the number of heartbeats that may be late or missing.
	missedBeats = 3
)

var errSilent = errors.New("the server no longer sends heartbeats")

// watchdog calls an expiry function if heartbeats are missing while the reader waits for an event. A
// server that never sends a heartbeat has none.
type watchdog struct {
	first chan struct{} // closed by the first heartbeat

	mu      sync.Mutex
	timer   *time.Timer
	timeout time.Duration // 0 before the first heartbeat
	last    time.Time     // of the last heartbeat, or of the begin
}

func (w *watchdog) init(expired func()) {
	w.first, w.last = make(chan struct{}), time.Now()
	w.timer = time.AfterFunc(time.Hour, expired)
	w.timer.Stop()
}

// beat notes a heartbeat. The longest interval gives the timeout. A slow receiver makes intervals
// longer, up to the bound.
func (w *watchdog) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timeout == 0 {
		close(w.first)
	}
	now := time.Now()
	w.timeout = max(w.timeout, quietTime, min(missedBeats*now.Sub(w.last), longestQuietTime))
	w.last = now
}

// start begins a wait for the next event, stop ends it.
func (w *watchdog) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timeout > 0 {
		w.timer.Reset(w.timeout)
	}
}

func (w *watchdog) stop() { w.timer.Stop() }
