// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/tap"

	"github.com/spokewire/sdk-go/internal/connlimit"
)

// clientOf returns the name under which a client is counted: a hash of its names, or its address.
func clientOf(info credentials.AuthInfo, addr net.Addr) string {
	names := identityOf(info).Names()
	if len(names) == 0 {
		return connlimit.Address(addr.String())
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", names)))
}

// budgetCredentials wraps connections after the handshake.
type budgetCredentials struct {
	credentials.TransportCredentials
	budget *budget
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c budgetCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	place, ok := raw.(*connlimit.Conn)
	if !ok {
		return nil, nil, errors.New("the connection has no place") // not of the listener of Start
	}
	return c.budget.wrap(conn, place, clientOf(info, conn.RemoteAddr())), info, nil
}

// Clone implements [credentials.TransportCredentials].
func (c budgetCredentials) Clone() credentials.TransportCredentials {
	return budgetCredentials{c.TransportCredentials.Clone(), c.budget}
}

type bodyTimerKey struct{}

// bodyDeadline starts the timer that ends a call whose request does not arrive. It runs on gRPC's
// reader, so it does not block.
func bodyDeadline(timeout time.Duration) tap.ServerInHandle {
	return func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(timeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
		return context.WithValue(ctx, bodyTimerKey{}, timer), nil
	}
}

// bodyArrived stops the timer of bodyDeadline.
func bodyArrived(ctx context.Context) {
	if timer, ok := ctx.Value(bodyTimerKey{}).(*time.Timer); ok {
		timer.Stop()
	}
}

// callStream has a context with a logger, and observes messages.
type callStream struct {
	grpc.ServerStream
	ctx    context.Context
	budget *budget
}

// Context returns the context with the logger.
func (s *callStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *callStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	bodyArrived(s.ctx)
	return err
}

// SendMsg implements [grpc.ServerStream].
func (s *callStream) SendMsg(m any) error {
	s.budget.answer(s.ctx, m)
	return s.ServerStream.SendMsg(m)
}
