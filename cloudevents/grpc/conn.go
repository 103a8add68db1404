// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// publishWindow limits the unacknowledged publications of a client, and receiveWindow the
	// unacknowledged deliveries to it, both by grpcwire.Message.Cost.
	publishWindow, receiveWindow = 4 << 20, 4 << 20
	// ackInterval is the longest time until a delivery is acknowledged while others are waiting.
	ackInterval = time.Second
)

// conn is the client's side of a connection. Callbacks are called without a mutex.
type conn struct {
	address string
	link    *link
	options cloudevents.ConnectOptions
	stream  grpc.ClientStream
	limit   int // of messages to send, in bytes

	endOnce    sync.Once
	life       context.Context         // ends with the connection
	stop       context.CancelCauseFunc // the first reason counts
	goroutines sync.WaitGroup

	sendable, receivable wait.Signal // set for send and for handle

	mu sync.Mutex
	// outbox has publications that are not sent, and pending those without an answer, which include
	// the former.
	outbox   []grpcwire.Message
	pending  []publication
	bytes    int            // of pending
	room     wait.Broadcast // bytes has decreased
	answered uint64         // number of answered publications
	refused  map[uint64]grpcwire.Refusal
	ended    bool

	inbox   []grpcwire.Message // deliveries that are not handled
	waiting int                // bytes of deliveries that are not acknowledged
	handled uint64             // number of handled deliveries
	acked   uint64             // the last handled that was sent
}

type publication struct {
	message grpcwire.Message
	done    func(error)
}

func newConn(address string, l *link, o cloudevents.ConnectOptions, token string) *conn {
	c := &conn{
		address: address, link: l, options: o, sendable: wait.NewSignal(), receivable: wait.NewSignal(),
		refused: map[uint64]grpcwire.Refusal{},
	}
	c.life, c.stop = context.WithCancelCause(withToken(context.Background(), token))
	return c
}

// open subscribes, and starts the goroutines of the connection.
func (c *conn) open(ctx context.Context) error {
	abandon := context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
	granted, err := c.subscribe()
	if !abandon() {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	for _, d := range granted.Denied {
		err := status.Error(codes.Code(d.Code), d.Reason)
		c.options.Denied(d.Filter, fmt.Errorf("topic filter %q: %w", d.Filter, err))
	}
	c.limit = granted.MaxMessageSize
	for _, run := range []func() error{c.receive, c.send, c.handle} {
		c.goroutines.Go(func() {
			if err := run(); err != nil {
				c.end(err)
			}
		})
	}
	return nil
}

func (c *conn) subscribe() (*grpcwire.Granted, error) {
	stream, err := c.link.client.NewStream(c.life, &connectStream, connectMethod)
	if err != nil {
		return nil, err
	}
	c.stream = stream
	open := &grpcwire.Subscribe{Filters: c.options.Filters, Optional: c.options.Optional, Window: receiveWindow}
	if err := stream.SendMsg(&grpcwire.ClientFrame{Subscribe: open}); err != nil {
		return nil, cmp.Or(stream.RecvMsg(&grpcwire.ServerFrame{}), err) // RecvMsg has the status
	}
	var first grpcwire.ServerFrame
	if err := stream.RecvMsg(&first); err != nil {
		return nil, err
	}
	if first.Granted == nil {
		return nil, errors.New("the first frame of the server has no field granted")
	}
	return first.Granted, nil
}

// Publish implements [cloudevents.Conn].
func (c *conn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	encoded, err := encode(m, c.limit)
	if err != nil {
		return err
	}
	if done == nil {
		done = func(error) {}
	}
	for {
		room, err := c.enqueue(publication{encoded, done})
		switch {
		case err != nil:
			return fmt.Errorf("publish on topic %q: %w", m.Topic, err)
		case room == nil:
			return nil
		}
		select {
		case <-room:
		case <-c.life.Done():
		case <-ctx.Done():
			return fmt.Errorf("publish on topic %q: waiting for the server: %w", m.Topic, ctx.Err())
		}
	}
}

// enqueue adds a publication to the outbox, or returns a channel to wait for.
func (c *conn) enqueue(p publication) (room <-chan struct{}, err error) {
	cost := p.message.Cost()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, cloudevents.ErrConnectionLost
	}
	if c.bytes > 0 && c.bytes+cost > publishWindow {
		return c.room.Next(), nil
	}
	c.outbox = append(c.outbox, p.message)
	c.pending = append(c.pending, p)
	c.bytes += cost
	c.sendable.Set()
	return nil, nil
}

// MaxPacketSize implements [cloudevents.Conn].
func (c *conn) MaxPacketSize() int { return c.limit }

// Done implements [cloudevents.Conn].
func (c *conn) Done() <-chan struct{} { return c.life.Done() }

// Err implements [cloudevents.Conn]. If the server ended the connection, the error has a gRPC status.
func (c *conn) Err() error {
	if err := context.Cause(c.life); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// Close implements [cloudevents.Conn]. It always returns nil.
func (c *conn) Close() error {
	c.end(errClosed)
	c.goroutines.Wait()
	return nil
}

// end ends the connection and drops publications without an answer. The first reason counts.
func (c *conn) end(reason error) {
	c.endOnce.Do(func() {
		c.goroutines.Go(func() {
			<-c.life.Done() // gRPC then resets the stream
			c.link.close()
		})
		c.mu.Lock()
		c.ended = true
		left := c.pending
		c.pending, c.outbox, c.inbox = nil, nil, nil
		c.mu.Unlock()
		c.stop(reason)
		for _, p := range left {
			p.done(cloudevents.ErrConnectionLost)
		}
	})
}
