// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// mostCalls is the largest number of messages that are published and not acknowledged.
const mostCalls = 64

// conn is one connection. Messages about one work are published one at a time, because the server
// handles calls in any order. Messages about different works are independent of each other.
type conn struct {
	client  *Client
	link    Link
	options cloudevents.ConnectOptions
	stream  grpc.ClientStream // nil without filters
	first   *grpcwire.Raw     // the event that has confirmed the subscription; nil after a header
	source  string            // of the subscription; empty for an agent

	calls chan struct{} // has a token for each message that is not acknowledged
	beats watchdog
	inbox chan grpcwire.Raw

	mu     sync.Mutex
	queues map[string][]call // by topic and resource ID; an entry exists while a goroutine sends from it
	lists  map[string]call   // the last list for each topic, until they are published again
	err    error

	life       context.Context // ends with the connection
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
}

// call is one message to publish.
type call struct {
	key   string // of its queue
	topic string
	event []byte
	done  func(error)
}

func newConn(client *Client, l Link, o cloudevents.ConnectOptions) *conn {
	c := &conn{
		client: client, link: l, options: o,
		calls: make(chan struct{}, mostCalls), inbox: make(chan grpcwire.Raw),
		queues: map[string][]call{}, lists: map[string]call{},
	}
	c.life, c.cancel = context.WithCancel(l.Calls)
	c.beats.init(func() { c.end(errSilent) })
	return c
}

// Publish implements [cloudevents.Conn].
func (c *conn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	event, err := grpcwire.AppendEvent(nil, m.Event)
	if err != nil {
		return fmt.Errorf("publish on topic %q: %w", m.Topic, err)
	}
	if len(event) > LargestMessage {
		return &cloudevents.TooLargeError{Topic: m.Topic, Size: len(event), Limit: LargestMessage}
	}
	topic, err := Topic(m.Event)
	if err != nil {
		return fmt.Errorf("publish on topic %q: %w", m.Topic, err)
	}
	if done == nil {
		done = func(error) {}
	}
	p := call{key: topic + "/" + text(m.Event, attrResource), topic: m.Topic, event: event, done: done}
	if part, action, _ := split(m.Event.Type()); part == "spec" && action == resyncRequest {
		c.keepList(p)
	}
	if source, ok := sourceLevel(m.Topic); ok {
		c.client.sourceOf(m.Event, source)
	}
	return c.add(ctx, p)
}

// add queues a call behind the earlier calls with its key.
func (c *conn) add(ctx context.Context, p call) error {
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("publish on topic %q: waiting for the server: %w", p.topic, ctx.Err())
	case <-c.life.Done():
		return fmt.Errorf("publish on topic %q: %w", p.topic, cloudevents.ErrConnectionLost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return fmt.Errorf("publish on topic %q: %w", p.topic, cloudevents.ErrConnectionLost)
	}
	queue, sending := c.queues[p.key]
	c.queues[p.key] = append(queue, p)
	if !sending {
		c.goroutines.Go(func() { c.send(p.key) })
	}
	return nil
}

// send publishes the messages of a queue until it is empty.
func (c *conn) send(key string) {
	for {
		c.mu.Lock()
		queue := c.queues[key]
		if len(queue) == 0 {
			delete(c.queues, key)
			c.mu.Unlock()
			return
		}
		p := queue[0]
		c.queues[key] = queue[1:]
		c.mu.Unlock()
		err := c.publish(p)
		<-c.calls
		p.done(err)
	}
}

func (c *conn) publish(p call) error {
	if c.life.Err() != nil {
		return cloudevents.ErrConnectionLost
	}
	ctx, cancel := context.WithTimeout(c.life, callTimeout)
	defer cancel()
	err := c.link.Client.Invoke(ctx, MethodPublish, &grpcwire.PublishRequest{Event: p.event}, new(grpcwire.Raw))
	switch {
	case err == nil:
		return nil
	case c.life.Err() != nil:
		return cloudevents.ErrConnectionLost
	case endsConnection(err):
		c.end(fmt.Errorf("publish on topic %q: %w", p.topic, err))
		return cloudevents.ErrConnectionLost
	}
	return publishError(p.topic, len(p.event), err)
}

// MaxPacketSize implements [cloudevents.Conn]. The server's own limit is unknown until it refuses a
// message.
func (c *conn) MaxPacketSize() int { return LargestMessage }

// Done implements [cloudevents.Conn].
func (c *conn) Done() <-chan struct{} { return c.life.Done() }

// Err implements [cloudevents.Conn].
func (c *conn) Err() error {
	if c.life.Err() == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.err, errClosed) {
		return nil
	}
	return c.err
}

var errClosed = errors.New("the connection was closed")

// Close implements [cloudevents.Conn]. It always returns nil.
func (c *conn) Close() error {
	c.end(errClosed)
	c.link.Close()
	c.goroutines.Wait()
	return nil
}

// end ends the connection; the first reason counts.
func (c *conn) end(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = reason
	}
	c.cancel()
}
