// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/topicfilter"
)

const (
	// window is the largest number of unacknowledged messages of one connection.
	window = 1024
	// queueLength is the largest number of queued messages of one receiver.
	queueLength = 65536
)

// conn is one connection. Its sender goroutine routes its messages like a broker, its receiver
// goroutine calls Receive. Each mutex of the package is locked alone.
type conn struct {
	bus     *Bus
	options cloudevents.ConnectOptions
	filters []topicfilter.Filter
	round   uint64 // the last Bus.round that chose this connection; guarded by Bus.mu

	window chan struct{} // has a token for each message that is not acknowledged
	outbox *queue[publication]
	room   chan struct{} // has a token for each message in inbox or in Receive
	inbox  *queue[cloudevents.Message]

	endOnce sync.Once
	life    context.Context // ends with the connection
	endLife context.CancelFunc
	ended   <-chan struct{} // of life
	err     error           // read after ended is closed

	goroutines sync.WaitGroup
}

type publication struct {
	message cloudevents.Message
	done    func(error)
}

func open(b *Bus, o cloudevents.ConnectOptions, filters []topicfilter.Filter) (*conn, error) {
	c := &conn{
		bus:     b,
		options: o,
		filters: filters,
		window:  make(chan struct{}, window),
		outbox:  newQueue[publication](),
		room:    make(chan struct{}, queueLength),
		inbox:   newQueue[cloudevents.Message](),
	}
	c.life, c.endLife = context.WithCancel(context.Background())
	c.ended = c.life.Done()
	if err := b.attach(c); err != nil {
		c.endLife()
		return nil, err
	}
	c.goroutines.Go(c.send)
	c.goroutines.Go(c.receive)
	return c, nil
}

// Publish implements [cloudevents.Conn].
func (c *conn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	if err := c.check(m); err != nil {
		return err
	}
	if done == nil {
		done = func(error) {}
	}
	select {
	case c.window <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("publish on topic %q: waiting for the bus: %w", m.Topic, ctx.Err())
	case <-c.ended:
	}
	if c.hasEnded() || !c.outbox.push(publication{message: m, done: done}) {
		return fmt.Errorf("publish on topic %q: %w", m.Topic, cloudevents.ErrConnectionLost)
	}
	return nil
}

// check refuses messages that a real broker or its transport would refuse, so that tests find them.
func (c *conn) check(m cloudevents.Message) error {
	if err := topicfilter.CheckTopic(m.Topic); err != nil {
		return err
	}
	if err := validate(m); err != nil {
		return fmt.Errorf("publish on topic %q: %w", m.Topic, err)
	}
	if limit := c.bus.maxPacketSize(); limit > 0 {
		if size := messageSize(m); size > limit {
			return &cloudevents.TooLargeError{Topic: m.Topic, Size: size, Limit: limit}
		}
	}
	return nil
}

func validate(m cloudevents.Message) error {
	if m.Event == nil {
		return errors.New("not a CloudEvent: the message has no event")
	}
	if err := m.Event.Validate(); err != nil {
		return fmt.Errorf("not a CloudEvent: %w", err)
	}
	return nil
}

// messageSize returns the size of topic, attributes and data, which any encoding must carry.
func messageSize(m cloudevents.Message) int {
	size := len(m.Topic) + len(m.Event.Data())
	for name, value := range codec.Attributes(m.Event) {
		size += len(name) + len(value)
	}
	return size
}

func (c *conn) send() {
	var items []publication
	var receivers []*conn
	for {
		if items = c.outbox.take(items, c.ended); items == nil {
			break
		}
		for i, p := range items {
			if !c.route(p.message, &receivers) {
				c.abandon(items[i:])
				break
			}
			<-c.window
			p.done(nil)
		}
	}
	c.abandon(c.outbox.close())
}

func (c *conn) abandon(left []publication) {
	for _, p := range left {
		p.done(cloudevents.ErrConnectionLost)
	}
}

// route adds a message to the queues of all its receivers. It returns false if the connection ended
// before.
func (c *conn) route(m cloudevents.Message, receivers *[]*conn) bool {
	select {
	case <-c.bus.gate():
	case <-c.ended:
	}
	if c.hasEnded() {
		return false
	}
	if intercept := c.bus.interceptor(); intercept != nil {
		intercept(m, func(m cloudevents.Message) { c.deliver(m, c.bus.receivers(m.Topic, nil)) })
		return true
	}
	*receivers = c.bus.receivers(m.Topic, (*receivers)[:0])
	return c.deliver(m, *receivers)
}

// deliver queues a message for the given receivers and waits while a queue is full.
func (c *conn) deliver(m cloudevents.Message, receivers []*conn) bool {
	for _, to := range receivers {
		select {
		case to.room <- struct{}{}: // before the others, so that late deliveries work after c has ended
			to.inbox.push(m)
			continue
		default:
		}
		select {
		case to.room <- struct{}{}:
			to.inbox.push(m)
		case <-to.ended:
		case <-c.ended:
			return false
		}
	}
	return true
}

func (c *conn) receive() {
	var items []cloudevents.Message
	for {
		if items = c.inbox.take(items, c.ended); items == nil {
			c.inbox.close()
			return
		}
		for _, m := range items {
			if c.hasEnded() {
				return
			}
			if err := validate(m); err != nil {
				c.options.Refuse(m.Topic, err)
			} else {
				c.options.Receive(m)
			}
			if !c.commit() {
				return
			}
			<-c.room
		}
	}
}

// commit calls Commit for the messages that Receive has handled. It returns false if Commit failed;
// the connection then ends.
func (c *conn) commit() bool {
	if c.options.Commit == nil {
		return true
	}
	if err := c.options.Commit(c.life); err != nil {
		c.end(err)
		return false
	}
	return true
}

// MaxPacketSize implements [cloudevents.Conn]; see [Bus.SetMaxPacketSize].
func (c *conn) MaxPacketSize() int { return c.bus.maxPacketSize() }

// Done implements [cloudevents.Conn].
func (c *conn) Done() <-chan struct{} { return c.ended }

// Err implements [cloudevents.Conn]. It returns [ErrDisconnected], the error of Commit, or nil.
func (c *conn) Err() error {
	if c.hasEnded() {
		return c.err
	}
	return nil
}

func (c *conn) hasEnded() bool { return c.life.Err() != nil }

// Close implements [cloudevents.Conn]. It always returns nil.
func (c *conn) Close() error {
	c.end(nil)
	c.goroutines.Wait()
	return nil
}

// end stops the goroutines; the first reason counts.
func (c *conn) end(reason error) {
	c.endOnce.Do(func() {
		c.bus.detach(c)
		c.err = reason
		c.endLife()
	})
}
