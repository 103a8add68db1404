// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/quietlog"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
	"github.com/spokewire/sdk-go/internal/topicfilter"
	"github.com/spokewire/sdk-go/internal/unfinished"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Server is a broker. Its methods may be called from any goroutine.
type Server struct {
	options    ServerOptions
	broker     *broker.Broker
	refusals   *quietlog.Log
	files      *quietlog.Log     // of certificates
	unfinished *unfinished.Limit // of messages from all clients

	mu       sync.Mutex // guards rechecks
	rechecks wait.Broadcast
}

// NewServer returns a server. It validates the options and starts nothing; files are read when a
// client connects. Errors contain the field and a solution.
func NewServer(o ServerOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, tlsfiles.OptionNames(o.OptionNames).Invalid("gRPC server options", err)
	}
	o = o.withDefaults()
	// A connection may have two of the largest messages, in frames of HTTP/2.
	mostUnfinished := 2 * (o.MaxMessageSize + frameBytes) * 17 / 16
	return &Server{
		options: o, broker: broker.New(o.limits()),
		unfinished: unfinished.New(mostUnfinished, max(mostUnfinished, o.MaxTotalQueueBytes/4)),
		refusals:   quietlog.New("Refused a client", "client", clock.RealClock{}),
		files:      quietlog.New("Failed to read certificates, using the previous ones", "", clock.RealClock{}),
	}, nil
}

// CheckFiles reads the files of the options once. A program that calls it at its start reports wrong
// files before it serves. Each TLS handshake reads them again.
func (s *Server) CheckFiles() error {
	if s.options.CertFile == "" {
		return nil
	}
	_, err := s.options.tlsConfig()
	return tlsfiles.OptionNames(s.options.OptionNames).Error(err)
}

// publish checks the access of a client and routes a message. The event must have a buffer of its
// own, of about its size. Errors have a gRPC status.
func (s *Server) publish(ctx context.Context, who Identity, m grpcwire.Message) error {
	if len(m.Event) == 0 {
		return status.Error(codes.InvalidArgument, "the message has no event")
	}
	var err error
	if m.Event, err = ocm.Deliverable(m); err != nil {
		return invalid(err)
	}
	if size := m.Size(); size > s.options.MaxMessageSize {
		return status.Errorf(codes.OutOfRange, "a message of %d bytes: must have at most %d", size, s.options.MaxMessageSize)
	}
	if err := broker.CheckTopic(m.Topic); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	a := Access{Identity: who, Write: true}
	a.describe(strings.Split(m.Topic, "/"))
	if err := s.authorize(ctx, a); err != nil {
		return err
	}
	switch err := s.broker.Publish(who.User, m); {
	case errors.Is(err, broker.ErrFull):
		return status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// subscribe checks the access of a client and adds a subscriber. See [broker.Broker.Subscribe] for
// window. Errors have a gRPC status. The caller closes the subscription.
func (s *Server) subscribe(
	ctx context.Context, who Identity, filters, optional []string, window int,
) (*broker.Subscription, []grpcwire.Denial, error) {
	granted, denied, err := s.grant(ctx, who, filters, optional)
	if err != nil {
		return nil, nil, err
	}
	return s.broker.Subscribe(who.User, granted, window), denied, nil
}

func (s *Server) grant(
	ctx context.Context, who Identity, filters, optional []string,
) ([]topicfilter.Filter, []grpcwire.Denial, error) {
	parsed, err := broker.ParseFilters(append(filters[:len(filters):len(filters)], optional...)...)
	if err != nil {
		return nil, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var denied []grpcwire.Denial
	granted := parsed[:0]
	for i, f := range parsed {
		a := Access{Identity: who}
		a.describe(f.Levels)
		err := s.authorize(ctx, a)
		switch {
		case err == nil:
			granted = append(granted, f)
		case i < len(filters):
			return nil, nil, err
		default:
			denied = append(denied, grpcwire.Denial{
				Filter: optional[i-len(filters)], Code: uint32(status.Code(err)), Reason: reasonOf(err),
			})
		}
	}
	return granted, denied, nil
}

// authorize returns an error with a gRPC status.
func (s *Server) authorize(ctx context.Context, a Access) error {
	err := s.options.Authorizer.Authorize(ctx, a)
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.Unavailable:
		return err
	}
	s.refusals.Error(klog.FromContext(ctx), err, reasonDenied, a.Identity.User)
	return status.Errorf(codes.PermissionDenied, "access denied: topic %q: %v", a.Topic, err)
}
