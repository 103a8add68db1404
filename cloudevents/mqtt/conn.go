// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents"
)

// keptScratch is the largest buffer for encoding, in bytes, that a connection keeps.
const keptScratch = 4 << 10

// conn is one connection.
//
// session.mu is locked before inbox.mu. wire.mu is locked alone, by paho while it writes a packet.
// Callbacks are called without a mutex.
type conn struct {
	endpoint endpoint
	binary   bool
	limit    int // of packets to send, in bytes
	client   *paho.Client
	wire     *wire
	session  *session
	receiver receiver

	// scratch is the buffer of the last structured message, for the next one. If another publisher
	// uses it, a publisher makes its own.
	scratch atomic.Pointer[[]byte]

	closeOnce  sync.Once
	life       context.Context         // ends with the connection
	end        context.CancelCauseFunc // stops the receiver and all waiting calls; the first reason counts
	goroutines sync.WaitGroup
}

var _ cloudevents.Conn = (*conn)(nil)

// Format implements [fmt.Formatter]: the fields contain the password.
func (c *conn) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "MQTT connection to "+c.endpoint.String())
}

// Publish implements [cloudevents.Conn].
func (c *conn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	if done == nil {
		done = func(error) {}
	}
	scratch := c.scratch.Swap(nil)
	if scratch == nil {
		scratch = new([]byte)
	}
	publish, err := encode(m, c.binary, (*scratch)[:0])
	if err != nil {
		return fmt.Errorf("publish on topic %q: %w", m.Topic, err)
	}
	if !c.binary && cap(publish.Payload) <= keptScratch {
		*scratch = publish.Payload
	}
	// By then paho has copied the payload into wire's buffer.
	defer c.scratch.Store(scratch)

	size := packetSize(publish)
	if size > c.limit {
		return &cloudevents.TooLargeError{Topic: m.Topic, Size: size, Limit: c.limit}
	}
	if err := c.send(ctx, publish, request{topic: m.Topic, size: size, done: done}); err != nil {
		if errors.Is(err, ctx.Err()) {
			return fmt.Errorf("publish on topic %q: waiting for the broker: %w", m.Topic, err)
		}
		return fmt.Errorf("publish on topic %q: %w", m.Topic, cloudevents.ErrConnectionLost)
	}
	return nil
}

// send waits for the broker's window and for space in the write buffer, then writes.
func (c *conn) send(ctx context.Context, publish *paho.Publish, r request) error {
	if c.life.Err() != nil { // first, since a select with several ready cases picks any
		return errClosed
	}
	if err := c.session.acquire(ctx, c.Done()); err != nil {
		return err
	}
	if err := c.wire.waitRoom(ctx, c.Done()); err != nil {
		c.session.release()
		return err
	}
	publishCtx := &publishContext{Context: context.Background(), request: r}
	async := paho.PublishOptions{Method: paho.PublishMethod_AsyncSend}
	_, err := c.client.PublishWithOptions(publishCtx, publish, async)
	if err == nil || publishCtx.added {
		return nil // if the write failed, done is called with those of all messages in flight
	}
	c.session.release()
	return err
}

// MaxPacketSize implements [cloudevents.Conn]: the lowest of 16 MiB, the broker's limit and
// Options.MaxPacketSize.
func (c *conn) MaxPacketSize() int { return c.limit }

// Done implements [cloudevents.Conn].
func (c *conn) Done() <-chan struct{} { return c.life.Done() }

// Err implements [cloudevents.Conn]. If the broker sent a reason, the error wraps a [*ReasonError].
func (c *conn) Err() error {
	err := context.Cause(c.life)
	if err == errClosed { //nolint:errorlint // an error of the link may wrap it
		return nil
	}
	return err
}

// Close implements [cloudevents.Conn]. It sends DISCONNECT if the broker reads, and always returns
// nil.
func (c *conn) Close() error {
	c.end(errClosed)
	c.closeOnce.Do(func() {
		_ = c.client.Disconnect(&paho.Disconnect{}) // fails if the link is broken
	})
	c.goroutines.Wait()
	return nil
}

// lost is called by paho after its shutdown: all messages in flight have been dropped.
func (c *conn) lost(err error) {
	reason := cmp.Or(c.session.reason(), c.wire.broken(), err)
	c.end(fmt.Errorf("connection to %s ended: %w", c.endpoint, reason))
}
