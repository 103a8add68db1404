// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// service has the calls of one gRPC server.
type service struct {
	server   *Server
	draining chan struct{} // closed when the gRPC server shuts down
}

func newService(s *Server) *service { return &service{server: s, draining: make(chan struct{})} }

const connectMethod = "/spokewire.cloudevents.v1.Broker/Connect"

var connectStream = grpc.StreamDesc{StreamName: "Connect", ServerStreams: true, ClientStreams: true}

func (s *service) register(r grpc.ServiceRegistrar) {
	connect := connectStream
	connect.Handler = func(_ any, stream grpc.ServerStream) error { return s.connect(stream) }
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: "spokewire.cloudevents.v1.Broker", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{connect},
		Metadata: "spokewire/cloudevents/v1/broker.proto",
	}, s)
}

// identify authenticates the client of a call: by its token, otherwise by its certificate.
func (s *service) identify(ctx context.Context) (Identity, error) {
	if s.server.options.Tokens != nil {
		for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
			id, err := s.server.options.Tokens.AuthenticateToken(ctx, strings.TrimPrefix(value, "Bearer "))
			if err == nil {
				return id, nil
			}
		}
	}
	p, _ := peer.FromContext(ctx)
	if p != nil {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			if chains := info.State.VerifiedChains; len(chains) > 0 {
				subject := chains[0][0].Subject
				return Identity{User: subject.CommonName, Groups: subject.Organization}, nil
			}
		} else if s.server.options.Insecure {
			return Identity{}, nil
		}
	}
	return Identity{}, status.Error(codes.Unauthenticated, "no valid bearer token, and no verified client certificate")
}

// connect serves one connection of the own profile.
func (s *service) connect(stream grpc.ServerStream) error {
	if _, err := s.identify(stream.Context()); err != nil {
		return err
	}
	return status.Error(codes.Unimplemented, "not yet")
}
