// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/tlsfiles"
	"github.com/spokewire/sdk-go/internal/unfinished"
)

// Limits of a client's TCP connection.
const (
	pingInterval = 30 * time.Second
	pingTimeout  = 10 * time.Second
	leastPing    = 5 * time.Second // interval of the client's pings, as in OCM's server
	idleTimeout  = 10 * time.Minute
	mostStreams  = 16
	serverWindow = 128 << 10 // HTTP/2's, for requests that no handler has read
	mostHeaders  = 16 << 10  // bytes of the headers of a call
	readBuffer   = 4 << 10   // gRPC's default of 32 KiB would be most of the memory of an idle client
)

// GRPCOptions returns the options that a gRPC server needs for [Server.Register]: the codec, which
// also encodes the protobuf messages of other services, its credentials, and limits. If clients use
// certificates, the credentials must verify them.
func (s *Server) GRPCOptions(c credentials.TransportCredentials) []grpc.ServerOption {
	return s.grpcOptions(c, klog.Background())
}

func (s *Server) grpcOptions(c credentials.TransportCredentials, logger klog.Logger) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(placing{c, s, logger}), grpc.StatsHandler(carrying{logger}),
		grpc.ForceServerCodecV2(grpcwire.NewCodec()),
		grpc.MaxRecvMsgSize(s.options.MaxMessageSize + frameBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingInterval, Timeout: pingTimeout, MaxConnectionIdle: idleTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(connlimit.HandshakeTimeout),
		grpc.MaxConcurrentStreams(mostStreams), grpc.MaxHeaderListSize(mostHeaders),
		grpc.InitialWindowSize(serverWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
	}
}

// Register adds the services to a gRPC server of the program, which must have been made with
// [Server.GRPCOptions]. Interceptors see every call of the services as a stream, so only its stream
// interceptors apply. The program calls drain before it stops that server: drain ends the streams
// of clients within DrainTimeout.
func (s *Server) Register(r grpc.ServiceRegistrar) (drain func()) {
	service := newService(s)
	service.register(r)
	return service.drain
}

// Serve serves clients, and gRPC's health and reflection services, until ctx ends. It then delivers
// queued messages up to DrainTimeout, closes the listener and all connections, and returns nil. It
// returns an error if the certificate cannot be read, or if the listener fails. Serve may be called
// for several listeners, and again after it has returned. In-process transports keep working after
// it returns.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	fail := func(err error) error {
		return tlsfiles.OptionNames(s.options.OptionNames).Error(fmt.Errorf("serve at %s: %w", listener.Addr(), err))
	}
	logger := klog.FromContext(ctx)
	proof, err := s.credentials(logger)
	if err != nil {
		_ = listener.Close()
		return fail(err)
	}
	server := grpc.NewServer(s.grpcOptions(proof, logger)...)
	service := newService(s)
	service.register(server)
	healthy := health.NewServer()
	for name := range server.GetServiceInfo() {
		healthy.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	healthv1.RegisterHealthServer(server, healthy)
	if err := registerReflection(server); err != nil {
		_ = listener.Close()
		return fail(err)
	}
	limited := connlimit.New(listener, s.options.MaxConnections, func(peer net.Addr) {
		logger.V(1).Info("Closed a connection", "peer", peer.String(), "limit", s.options.MaxConnections)
	})
	logger.Info("Started serving events", "address", listener.Addr().String(), "tls", !s.options.Insecure)

	served := make(chan error, 1)
	go func() { served <- server.Serve(limited) }()
	select {
	case err = <-served:
		server.Stop()
		service.drain()
		return fail(err)
	case <-ctx.Done():
	}
	healthy.Shutdown()
	service.shutDown(server)
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // ctx ended before it served
		return fail(err)
	}
	return nil
}

// shutDown stops a gRPC server after its streams have ended, or after DrainTimeout.
func (s *service) shutDown(server *grpc.Server) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop() // no further connections or streams
	}()
	s.drain()
	last := time.NewTimer(goodbye) // for clients that do not read, and for streams of the health service
	defer last.Stop()
	select {
	case <-stopped:
	case <-last.C:
	}
	server.Stop()
	<-stopped
	s.streams.Wait()
}

// placing gives each connection its limits after the handshake.
type placing struct {
	credentials.TransportCredentials
	server *Server
	logger klog.Logger
}

// ServerHandshake implements [credentials.TransportCredentials].
func (p placing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if !errors.Is(err, io.EOF) { // a probe that only connects
			p.server.refusals.Error(p.logger, err, reasonHandshake, connlimit.Address(raw.RemoteAddr().String()))
		}
		return nil, nil, err
	}
	client := connlimit.Address(raw.RemoteAddr().String())
	if id, ok := certified(info); ok && id.User != "" {
		client = id.User
	}
	if place, ok := raw.(*connlimit.Conn); ok && !place.Establish(client) {
		return nil, nil, errors.New("the server has too many connections")
	}
	cut := func() {
		p.server.refusals.Error(p.logger, unfinished.ErrExceeded, reasonUnfinished, client)
		_ = raw.Close()
	}
	return p.server.unfinished.Wrap(conn, client, cut), info, nil
}

// Clone implements [credentials.TransportCredentials].
func (p placing) Clone() credentials.TransportCredentials {
	p.TransportCredentials = p.TransportCredentials.Clone()
	return p
}

// credentials returns the TLS credentials of the server. Files are read at each handshake. While they
// cannot be read, the last files are used.
func (s *Server) credentials(logger klog.Logger) (credentials.TransportCredentials, error) {
	o := s.options
	switch {
	case o.Insecure:
		return insecure.NewCredentials(), nil
	case o.TLS != nil:
		config := o.TLS.Clone()
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
		return credentials.NewTLS(config), nil
	case o.CertFile == "":
		return nil, errors.New("CertFile and KeyFile are empty: set them, or TLS, or Insecure")
	}
	first, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if config, err := o.tlsConfig(); err != nil {
				s.files.Error(logger, err, "unreadable", "")
			} else {
				last.Store(config)
			}
			return last.Load(), nil
		},
	}), nil
}

// tlsConfig reads the files.
func (o ServerOptions) tlsConfig() (*tls.Config, error) {
	pair, err := tlsfiles.Pair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*pair},
		// A resumed session would rely on the certificates of its first handshake.
		SessionTicketsDisabled: true,
	}
	if o.ClientCAFile != "" {
		config.ClientAuth = tls.VerifyClientCertIfGiven // a client may have a token instead
		config.ClientCAs, err = tlsfiles.Authorities("ClientCAFile", o.ClientCAFile)
	}
	return config, err
}
