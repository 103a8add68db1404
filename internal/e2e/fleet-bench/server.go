// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

const (
	// ownServer is the value of --broker for a gRPC server in the process of the source.
	ownServer = "grpc"
	// serverScheme begins the URL of such a server.
	serverScheme = ownServer + "://"
)

// server is a gRPC server in the process of the source.
type server struct {
	*grpc.Server
	address string
	end     func() // closes the listener and waits for the end of Serve
}

// newServer returns a server, which is not started, for a URL of place. With a certificate, clients
// need the same one.
func newServer(url, certificate string) (*server, error) {
	s, err := grpc.NewServer(grpc.ServerOptions{
		Insecure: certificate == "", CertFile: certificate, KeyFile: certificate, ClientCAFile: certificate,
		Authorizer: grpc.AuthorizerFunc(func(context.Context, grpc.Access) error { return nil }),
	})
	return &server{Server: s, address: strings.TrimPrefix(url, serverScheme), end: func() {}}, err
}

// place returns the URL for a server on a free port, and with TLS the file of its certificate. The
// caller calls remove later.
func place(withTLS bool) (url, certificate string, remove func(), err error) {
	remove = func() {}
	address, err := freeAddress()
	if err != nil || !withTLS {
		return serverScheme + address.String(), "", remove, err
	}
	folder, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return "", "", remove, err
	}
	certificate = filepath.Join(folder, "tls.pem")
	return serverScheme + address.String(), certificate, func() { _ = os.RemoveAll(folder) }, writeCertificate(certificate)
}

// start implements [broker].
func (s *server) start() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(context.Background(), listener) // until the listener is closed
	}()
	s.end = func() {
		_ = listener.Close()
		<-served
	}
	return nil
}

// kill implements [broker]. The source stays connected.
func (s *server) kill() { s.end() }

// serve starts the server of --broker grpc, in the process of the source.
func (b *bench) serve() error {
	if !strings.HasPrefix(b.options.broker, serverScheme) {
		return nil
	}
	s, err := newServer(b.options.broker, b.options.ca)
	if err != nil {
		return err
	}
	b.broker, b.fleet.server = s, s
	return s.start()
}

// distantServer is the server of a hub process.
type distantServer struct{ hub *hubProcess }

// start implements [broker].
func (s distantServer) start() error {
	_, err := s.hub.do(context.Background(), toOpen)
	return err
}

// kill implements [broker].
func (s distantServer) kill() { _, _ = s.hub.do(context.Background(), toClose) }
