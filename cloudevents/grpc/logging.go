// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/stats"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
)

// Reasons of logged refusals.
const (
	reasonHandshake       = "TLS handshake failed"
	reasonUnauthenticated = "not authenticated"
	reasonDenied          = "access denied"
	reasonUnfinished      = "unfinished messages"
	reasonStalled         = "its queue is full"
)

// logStall logs the end of a subscriber that does not read, and returns the status of its stream.
func (s *Server) logStall(ctx context.Context, who Identity, sub *broker.Subscription, end error) error {
	if _, err := sub.Take(nil, 0, 0); errors.Is(err, broker.ErrStalled) {
		s.refusals.Error(klog.FromContext(ctx), err, reasonStalled, who.User)
	}
	return end
}

// carrying gives calls the logger of Serve.
type carrying struct{ logger klog.Logger }

// TagRPC implements [stats.Handler].
func (c carrying) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return klog.NewContext(ctx, c.logger)
}

// HandleRPC implements [stats.Handler].
func (carrying) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn implements [stats.Handler].
func (carrying) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements [stats.Handler].
func (carrying) HandleConn(context.Context, stats.ConnStats) {}
