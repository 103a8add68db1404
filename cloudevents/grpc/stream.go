// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Limits of the frames that both sides send.
const (
	frameBytes    = 64 << 10 // unless one message is larger
	frameMessages = 1024
	mostRefusals  = 1024
)

// serverConn is the server's side of a connection.
type serverConn struct {
	service *service
	stream  grpc.ServerStream
	who     Identity
	sub     *broker.Subscription

	handled uint64 // deliveries that the client has acknowledged; only used by receive

	mu       sync.Mutex
	answered uint64 // publications
	sent     uint64 // the last answered that was sent
	refused  []grpcwire.Refusal
	room     wait.Broadcast // for refused
}

// connect serves one connection.
func (s *service) connect(stream grpc.ServerStream, client *clientCheck, first *grpcwire.ClientFrame) error {
	wanted := first.Subscribe
	if first.Malformed != nil {
		return invalid(first.Malformed)
	}
	if wanted == nil {
		return status.Error(codes.InvalidArgument, "the first frame has no field subscribe")
	}
	sub, denied, err := s.server.subscribe(client.ctx, client.who, wanted.Filters, wanted.Optional, wanted.Window)
	if err != nil {
		return err
	}
	defer sub.Close()
	granted := &grpcwire.Granted{MaxMessageSize: s.server.options.MaxMessageSize, Denied: denied}
	if err := stream.SendMsg(&grpcwire.ServerFrame{Granted: granted}); err != nil {
		return err
	}
	client.filters = slices.Concat(wanted.Filters, slices.DeleteFunc(wanted.Optional, func(filter string) bool {
		return slices.ContainsFunc(denied, func(d grpcwire.Denial) bool { return d.Filter == filter })
	}))
	c := &serverConn{service: s, stream: stream, who: client.who, sub: sub}
	first.Subscribe = nil
	return s.follow(client, sub, func() error { return c.receive(first) }, c.send)
}

// receive handles the frames of the client, beginning with the first one.
func (c *serverConn) receive(frame *grpcwire.ClientFrame) error {
	for {
		if err := c.handle(frame); err != nil {
			return err
		}
		frame = &grpcwire.ClientFrame{}
		if err := c.stream.RecvMsg(frame); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (c *serverConn) handle(frame *grpcwire.ClientFrame) error {
	if frame.Malformed != nil {
		return invalid(frame.Malformed)
	}
	if frame.Subscribe != nil {
		return status.Error(codes.InvalidArgument, "a later frame has the field subscribe")
	}
	if n := frame.Acknowledged; n > c.handled {
		if !c.sub.Release(n - c.handled) {
			return status.Errorf(codes.InvalidArgument, "acknowledged %d deliveries: fewer were sent", n)
		}
		c.handled = n
	}
	for _, m := range frame.Messages {
		select {
		case <-c.service.draining:
			return nil // without an answer the client publishes it again
		default:
		}
		err := c.service.server.publish(c.stream.Context(), c.who, m)
		if err := c.answer(c.stream.Context(), err); err != nil {
			return err
		}
	}
	if len(frame.Messages) > 0 {
		c.sub.Wake().Set()
	}
	return nil
}

// answer records the answer to a publication. It waits while a client does not read its refusals.
func (c *serverConn) answer(ctx context.Context, err error) error {
	c.mu.Lock()
	for err != nil && len(c.refused) >= mostRefusals {
		room := c.room.Next()
		c.mu.Unlock()
		c.sub.Wake().Set()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	c.answered++
	if err != nil {
		c.refused = append(c.refused, grpcwire.Refusal{
			Number: c.answered, Code: uint32(status.Code(err)), Reason: reasonOf(err),
		})
	}
	return nil
}

// reasonOf returns the text of a refusal. Texts of authorizers have any length.
func reasonOf(err error) string { return cut.Text(status.Convert(err).Message(), longestReason) }

// send sends deliveries and answers.
func (c *serverConn) send() error {
	var batch []grpcwire.Message
	for {
		select {
		case <-c.sub.Wake():
		case <-c.stream.Context().Done():
			return c.stream.Context().Err()
		}
		var err error
		if batch, err = c.sub.Take(batch[:0], frameBytes, frameMessages); err != nil {
			return subscriptionStatus(c.sub)
		}
		frame := &grpcwire.ServerFrame{Messages: batch}
		c.mu.Lock()
		if c.answered > c.sent {
			c.sent, frame.Acknowledged = c.answered, c.answered
		}
		frame.Refused, c.refused = c.refused, nil
		c.room.Wake()
		c.mu.Unlock()
		if len(batch) == 0 && frame.Acknowledged == 0 {
			continue
		}
		if err := c.stream.SendMsg(frame); err != nil {
			return err
		}
		clear(batch)
	}
}
