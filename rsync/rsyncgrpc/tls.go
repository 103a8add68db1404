// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"
)

// fresh is a value that is read from files for each use, or the earlier value if that fails.
type fresh[T any] struct {
	read   func() (T, error)
	failed func(error) // called once for each problem

	mu      sync.Mutex
	value   T
	ok      bool
	problem string
}

func (f *fresh[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, err := f.read()
	if err == nil {
		f.value, f.ok, f.problem = value, true, ""
		return value, nil
	}
	if !f.ok {
		return value, err
	}
	if f.problem != err.Error() {
		f.problem = err.Error()
		f.failed(err)
	}
	return f.value, nil
}

func pairOf(certFile, keyFile string) func() (tls.Certificate, error) {
	return func() (tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return pair, fmt.Errorf("certificate %s and key %s: %w", certFile, keyFile, err)
		}
		return pair, nil
	}
}

// authoritiesOf returns a function that reads CAs. It rejects a file that is still being written.
func authoritiesOf(file string) func() (*x509.CertPool, error) {
	return func() (*x509.CertPool, error) {
		rest, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("CAs: %w", err)
		}
		pool, found := x509.NewCertPool(), false
		for block, next := pem.Decode(rest); block != nil; block, next = pem.Decode(rest) {
			rest = next
			if block.Type != "CERTIFICATE" {
				return nil, fmt.Errorf("CAs: %s has a PEM block of type %s: must have only certificates", file, block.Type)
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("CAs: %s: %w", file, err)
			}
			pool.AddCert(certificate)
			found = true
		}
		if !found || bytes.Contains(rest, []byte("-----BEGIN")) {
			return nil, fmt.Errorf("CAs: %s has no certificate in PEM, or ends within one", file)
		}
		return pool, nil
	}
}

func serverTLS(o *ServerOptions, failed func(error)) (credentials.TransportCredentials, error) {
	pair := &fresh[tls.Certificate]{read: pairOf(o.CertFile, o.KeyFile), failed: failed}
	if _, err := pair.get(); err != nil {
		return nil, err
	}
	var clients *fresh[*x509.CertPool]
	if o.ClientCAFile != "" {
		clients = &fresh[*x509.CertPool]{read: authoritiesOf(o.ClientCAFile), failed: failed}
		if _, err := clients.get(); err != nil {
			return nil, err
		}
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			certificate, err := pair.get()
			if err != nil {
				return nil, err
			}
			config := &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{certificate},
			}
			if clients == nil {
				return config, nil
			}
			// A resumed session would rely on the certificates of its first handshake.
			config.SessionTicketsDisabled = true
			config.ClientAuth = tls.RequireAndVerifyClientCert
			config.ClientCAs, err = clients.get()
			return config, err
		},
	}), nil
}

// clientTLS has the TLS credentials of a client. It reads the files for each handshake.
type clientTLS struct {
	credentials.TransportCredentials // for methods that do not depend on the files
	serverName                       string
	pair                             *fresh[tls.Certificate]
	servers                          *fresh[*x509.CertPool]
}

func newClientTLS(o *ClientOptions, failed func(error)) (credentials.TransportCredentials, error) {
	c := &clientTLS{serverName: o.ServerName}
	if o.CertFile != "" {
		c.pair = &fresh[tls.Certificate]{read: pairOf(o.CertFile, o.KeyFile), failed: failed}
	}
	if o.CAFile != "" {
		c.servers = &fresh[*x509.CertPool]{read: authoritiesOf(o.CAFile), failed: failed}
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	c.TransportCredentials = credentials.NewTLS(config)
	return c, nil
}

func (c *clientTLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.serverName}
	var err error
	if c.servers != nil {
		if config.RootCAs, err = c.servers.get(); err != nil {
			return nil, err
		}
	}
	if c.pair != nil {
		certificate, err := c.pair.get()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c *clientTLS) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone implements [credentials.TransportCredentials].
func (c *clientTLS) Clone() credentials.TransportCredentials {
	clone := *c
	clone.TransportCredentials = c.TransportCredentials.Clone()
	return &clone
}
