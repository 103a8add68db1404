// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// Transport returns a new transport for one source or agent in the process of the server. It may
// use all topics, and works without Serve. Its Connect returns a [*cloudevents.PermanentError] for
// a malformed filter. Its Publish never waits: if a queue is full, its callback receives a
// [*cloudevents.TemporaryError].
func (s *Server) Transport() cloudevents.Transport { return &localTransport{server: s} }

type localTransport struct {
	server  *Server
	claimed atomic.Bool
}

// Claim implements [cloudevents.Transport]. It ignores its argument.
func (t *localTransport) Claim(string) error {
	if !t.claimed.CompareAndSwap(false, true) {
		return cloudevents.ErrClaimed
	}
	return nil
}

// Connect implements [cloudevents.Transport].
func (t *localTransport) Connect(ctx context.Context, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to the server in this process: %w", err)
	}
	filters, err := broker.ParseFilters(slices.Concat(o.Filters, o.Optional)...)
	if err != nil {
		return nil, &cloudevents.PermanentError{Err: err}
	}
	c := &localConn{server: t.server, options: o, sub: t.server.broker.Subscribe("", filters, 0)}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.receiver.Go(c.receive)
	return c, nil
}

// localConn is a connection inside the process.
type localConn struct {
	server  *Server
	options cloudevents.ConnectOptions
	sub     *broker.Subscription

	life     context.Context         // ends with the connection
	end      context.CancelCauseFunc // the first reason counts
	receiver sync.WaitGroup
}

// Publish implements [cloudevents.Conn]. It calls done before it returns.
func (c *localConn) Publish(ctx context.Context, m cloudevents.Message, done func(error)) error {
	encoded, err := encode(m, c.MaxPacketSize())
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("publish on topic %q: %w", m.Topic, ctx.Err())
	case c.life.Err() != nil:
		return fmt.Errorf("publish on topic %q: %w", m.Topic, cloudevents.ErrConnectionLost)
	}
	err = c.server.broker.Publish("", encoded)
	if errors.Is(err, broker.ErrFull) {
		err = refusal(encoded, c.MaxPacketSize(), status.Error(codes.ResourceExhausted, err.Error()))
	}
	if done != nil {
		done(err)
	}
	return nil
}

func (c *localConn) receive() {
	var batch []grpcwire.Message
	for {
		select {
		case <-c.life.Done():
			return
		case <-c.sub.Wake():
		}
		var err error
		if batch, err = c.sub.Take(batch[:0], c.server.options.MaxQueueBytes, mostUncommitted); err != nil {
			c.end(fmt.Errorf("connection to the server in this process ended: %w", err))
			return
		}
		release := func(n int) { c.sub.Release(uint64(n)) } //nolint:gosec // it is not negative
		if err := handle(c.life, &c.options, batch, release); err != nil {
			c.end(err)
			c.sub.Close()
			return
		}
	}
}

// MaxPacketSize implements [cloudevents.Conn].
func (c *localConn) MaxPacketSize() int { return c.server.options.MaxMessageSize }

// Done implements [cloudevents.Conn].
func (c *localConn) Done() <-chan struct{} { return c.life.Done() }

// Err implements [cloudevents.Conn].
func (c *localConn) Err() error {
	if err := context.Cause(c.life); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// Close implements [cloudevents.Conn]. It always returns nil.
func (c *localConn) Close() error {
	c.end(errClosed)
	c.sub.Close()
	c.receiver.Wait()
	return nil
}
