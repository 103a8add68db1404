// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
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
)

// Limits of a client's TCP connection.
const (
	pingInterval = 30 * time.Second
	pingTimeout  = 10 * time.Second
	leastPing    = 5 * time.Second // interval of the client's pings, as in OCM's server
	idleTimeout  = 10 * time.Minute
	mostStreams  = 128
	mostHeaders  = 16 << 10 // bytes of the headers of a call
	readBuffer   = 4 << 10  // gRPC's default of 32 KiB would be most of the memory of an idle client
)

// GRPCOptions returns the options that a gRPC server needs for [Server.Register]: the codec, which
// also encodes the protobuf messages of other services, and limits. Its credentials must verify
// client certificates, if clients have some.
func (s *Server) GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(grpcwire.NewCodec()),
		grpc.MaxRecvMsgSize(s.options.MaxMessageSize + frameBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingInterval, Timeout: pingTimeout, MaxConnectionIdle: idleTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(connlimit.HandshakeTimeout),
		grpc.MaxConcurrentStreams(mostStreams), grpc.MaxHeaderListSize(mostHeaders),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
	}
}

// Register adds the services to a gRPC server of the program, which must have been made with
// [Server.GRPCOptions]. All calls are streams for its interceptors. The program calls drain before
// it stops that server: drain ends the streams of clients within DrainTimeout.
func (s *Server) Register(r grpc.ServiceRegistrar) (drain func()) {
	service := newService(s)
	service.register(r)
	return service.drain
}

// Serve serves clients, and gRPC's health and reflection services, until ctx ends. It then delivers
// queued messages up to DrainTimeout, closes the listener and all connections, and returns nil. It
// returns an error if the certificate cannot be read, or if the listener fails. It may be called for
// several listeners, and again; in-process transports are not affected by its end.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	fail := func(err error) error {
		return tlsfiles.OptionNames(s.options.OptionNames).Error(fmt.Errorf("serve at %s: %w", listener.Addr(), err))
	}
	proof, err := s.credentials()
	if err != nil {
		_ = listener.Close()
		return fail(err)
	}
	logger := klog.FromContext(ctx)
	server := grpc.NewServer(append(s.GRPCOptions(), grpc.Creds(placing{proof}), grpc.StatsHandler(carrying{logger}))...)
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

// placing gives each connection a place among those of its client, after the handshake.
type placing struct {
	credentials.TransportCredentials
}

// ServerHandshake implements [credentials.TransportCredentials].
func (p placing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	var client string // the address, if empty
	if id, ok := certified(info); ok {
		client = id.User
	}
	if place, ok := raw.(*connlimit.Conn); ok && !place.Establish(client) {
		return nil, nil, errors.New("the server has too many connections")
	}
	return conn, info, nil
}

// Clone implements [credentials.TransportCredentials].
func (p placing) Clone() credentials.TransportCredentials {
	return placing{p.TransportCredentials.Clone()}
}

// credentials returns the TLS credentials of the server. Files are read at each handshake.
func (s *Server) credentials() (credentials.TransportCredentials, error) {
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
	if _, err := o.tlsConfig(); err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return o.tlsConfig() },
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
