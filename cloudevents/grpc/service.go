// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// service has the calls of one gRPC server.
type service struct {
	server   *Server
	draining chan struct{} // closed when the gRPC server begins to shut down
	stopping chan struct{} // closed when streams must end

	mu      sync.Mutex // guards the closing of draining
	streams sync.WaitGroup
}

func newService(s *Server) *service {
	return &service{server: s, draining: make(chan struct{}), stopping: make(chan struct{})}
}

// enter counts a stream; streams.Done ends it. It returns an error during a shutdown.
func (s *service) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.draining:
		return status.Error(codes.Unavailable, broker.ErrFinished.Error())
	default:
	}
	s.streams.Add(1)
	return nil
}

// drain ends all streams. Subscribers receive queued messages before, up to DrainTimeout. Only the
// first call has an effect.
func (s *service) drain() {
	s.mu.Lock()
	select {
	case <-s.draining:
		s.mu.Unlock()
		return
	default:
	}
	close(s.draining)
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.streams.Wait()
	}()
	timeout := time.NewTimer(s.server.options.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
		return
	case <-timeout.C:
	}
	close(s.stopping)
	timeout.Reset(goodbye)
	select {
	case <-ended:
	case <-timeout.C: // a stream waits for its authorizer
	}
}

// Limits of the time to the first message of a stream. A publication may be large, and the link slow.
const (
	firstTimeout   = 5 * time.Second
	publishTimeout = 2 * time.Minute
)

const connectMethod = "/spokewire.cloudevents.v1.Broker/Connect"

var connectStream = grpc.StreamDesc{StreamName: "Connect", ServerStreams: true, ClientStreams: true}

func (s *service) register(r grpc.ServiceRegistrar) {
	connect := connectStream
	connect.Handler = handler(s, s.connect)
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: "spokewire.cloudevents.v1.Broker", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{connect},
		Metadata: grpcwire.BrokerFile,
	}, s)
	s.registerOCM(r)
}

// handler returns the handler of a stream. It authenticates the client and reads the first message
// before it calls serve.
func handler[M any](s *service, serve func(grpc.ServerStream, *clientCheck, *M) error) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		if err := s.enter(); err != nil {
			return err
		}
		defer s.streams.Done()
		client := &clientCheck{service: s, ctx: stream.Context(), recheck: s.server.nextRecheck()}
		var err error
		if client.who, err = s.identify(client.ctx); err != nil {
			return err
		}
		first := new(M)
		if err := s.readFirst(stream, first); err != nil {
			return err
		}
		return serve(stream, client, first)
	}
}

// readFirst reads the first message of a stream.
func (s *service) readFirst(stream grpc.ServerStream, first any) error {
	within := firstTimeout
	if _, ok := first.(*grpcwire.PublishRequest); ok {
		within = publishTimeout
	}
	read := make(chan error, 1)
	s.streams.Go(func() { read <- stream.RecvMsg(first) }) // it ends with the stream
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case err := <-read:
		return err
	case <-late.C:
		return status.Errorf(codes.DeadlineExceeded, "no message within %v", within)
	case <-s.draining:
		return status.Error(codes.Unavailable, broker.ErrFinished.Error())
	}
}

// follow runs the parts of a subscriber's stream until one of them, the subscription or the service
// ends, and returns the status of the stream. After it, gRPC ends the parts, even if they wait for the
// client.
func (s *service) follow(client *clientCheck, sub *broker.Subscription, parts ...func() error) error {
	ended := make(chan error, len(parts))
	for _, part := range parts {
		s.streams.Go(func() { ended <- part() })
	}
	draining := s.draining
	due := time.NewTimer(client.due())
	defer due.Stop()
	for {
		select {
		case err := <-ended:
			return s.server.logStall(client.ctx, client.who, sub, err)
		case <-sub.Ended():
			return s.server.logStall(client.ctx, client.who, sub, subscriptionStatus(sub))
		case <-client.recheck:
			client.recheck = s.server.nextRecheck()
			if err := client.check(); err != nil {
				return err
			}
		case <-due.C:
			if err := client.check(); err != nil {
				return err
			}
			due.Reset(client.due())
		case <-draining:
			sub.Finish()
			draining = nil
		case <-s.stopping:
			return status.Error(codes.Unavailable, broker.ErrFinished.Error())
		}
	}
}

// subscriptionStatus returns the status of an ended subscription.
func subscriptionStatus(sub *broker.Subscription) error {
	_, err := sub.Take(nil, 0, 0)
	if errors.Is(err, broker.ErrStalled) {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// identify authenticates the client of a call: by its token, otherwise by its certificate.
func (s *service) identify(ctx context.Context) (Identity, error) {
	failure := errors.New("no verified client certificate")
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) > 1 { // each would be a review
		return Identity{}, status.Error(codes.Unauthenticated, "several headers authorization: send one")
	}
	if s.server.options.Tokens != nil && len(values) == 1 {
		id, err := s.server.options.Tokens.AuthenticateToken(ctx, strings.TrimPrefix(values[0], "Bearer "))
		if err == nil {
			return id, nil
		}
		failure = err
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		p = &peer.Peer{Addr: &net.TCPAddr{}}
	}
	if id, ok := certified(p.AuthInfo); ok {
		return id, nil
	}
	if status.Code(failure) == codes.Unavailable {
		return Identity{}, failure
	}
	if s.server.options.Insecure {
		return Identity{}, nil
	}
	s.server.refusals.Error(klog.FromContext(ctx), failure, reasonUnauthenticated, connlimit.Address(p.Addr.String()))
	return Identity{}, status.Error(codes.Unauthenticated, "no valid bearer token, and no valid client certificate")
}

// certified returns the identity of a verified client certificate.
func certified(info credentials.AuthInfo) (Identity, bool) {
	secure, ok := info.(credentials.TLSInfo)
	if !ok || len(secure.State.VerifiedChains) == 0 {
		return Identity{}, false
	}
	cert := secure.State.VerifiedChains[0][0]
	if time.Now().After(cert.NotAfter) { // since the handshake
		return Identity{}, false
	}
	return Identity{User: cert.Subject.CommonName, Groups: cert.Subject.Organization, Certificate: cert}, true
}
