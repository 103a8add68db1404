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

	turns turns
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

// open authenticates the client of a stream, and reads its first message within firstTimeout.
func (s *service) open(stream grpc.ServerStream, first any) (Identity, error) {
	who, err := s.identify(stream.Context())
	if err != nil {
		return Identity{}, err
	}
	read := make(chan error, 1)
	s.streams.Go(func() { read <- s.turns.read(stream, first) }) // it ends with the stream
	late := time.NewTimer(firstTimeout)
	defer late.Stop()
	select {
	case err = <-read:
	case <-late.C:
		err = status.Errorf(codes.DeadlineExceeded, "no message within %v", firstTimeout)
	case <-s.draining:
		err = status.Error(codes.Unavailable, broker.ErrFinished.Error())
	}
	return who, err
}

// firstTimeout limits the time to the first message of a stream.
const firstTimeout = 5 * time.Second

const connectMethod = "/spokewire.cloudevents.v1.Broker/Connect"

var connectStream = grpc.StreamDesc{StreamName: "Connect", ServerStreams: true, ClientStreams: true}

func (s *service) register(r grpc.ServiceRegistrar) {
	connect := connectStream
	connect.Handler = func(_ any, stream grpc.ServerStream) error { return s.connect(stream) }
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: "spokewire.cloudevents.v1.Broker", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{connect},
		Metadata: grpcwire.BrokerFile,
	}, s)
	s.registerOCM(r)
}

// identify authenticates the client of a call: by its token, otherwise by its certificate.
func (s *service) identify(ctx context.Context) (Identity, error) {
	failure := errors.New("no verified client certificate")
	if s.server.options.Tokens != nil {
		for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
			id, err := s.server.options.Tokens.AuthenticateToken(ctx, strings.TrimPrefix(value, "Bearer "))
			if err == nil {
				return id, nil
			}
			failure = err
		}
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
