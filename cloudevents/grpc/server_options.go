// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
)

const (
	defaultMaxMessageSize = 16 << 20
	defaultQueueBytes     = 64 << 20
	defaultTotalBytes     = 1 << 30
	defaultConnections    = 20_000
	defaultDrainTimeout   = 5 * time.Second
	defaultRecheck        = 5 * time.Minute
	stallTimeout          = 30 * time.Second
)

// ServerOptions configures a server. The zero value is for a server that only has in-process
// transports, or that is registered at a gRPC server of the program.
type ServerOptions struct {
	// CertFile and KeyFile are PEM files of the server's certificate and its key. They are read at
	// each TLS handshake. Set both or neither. Serve needs them, or TLS, or Insecure.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file of the CAs that verify the certificates of clients. It is read at
	// each TLS handshake. A client without a certificate may have a token. Defaults to none: a
	// client needs a token.
	ClientCAFile string
	// TLS is used instead of the three files. A version below TLS 1.2 is raised to it.
	TLS *tls.Config
	// Insecure serves without TLS. Clients without a token are anonymous then: User is empty.
	Insecure bool

	// Tokens authenticates clients with bearer tokens. Defaults to none.
	Tokens TokenAuthenticator
	// Authorizer decides about publications and subscriptions of clients. Defaults to
	// AuthorizeNames(), which allows only agents.
	Authorizer Authorizer

	// RecheckInterval is the most time until the server checks a connected client again: its token,
	// and its rights to its subscriptions. The connection ends if they are not valid any more. See
	// also [Server.Recheck]. The end of a certificate needs no check. Defaults to 5 min.
	RecheckInterval time.Duration

	// MaxMessageSize limits a message, in bytes of its topic, attributes and data. Defaults to 16
	// MiB, which is also the maximum.
	MaxMessageSize int
	// QueueBytes limits the queue of a subscriber, in bytes. Defaults to 64 MiB.
	QueueBytes int
	// TotalBytes limits the queues of all subscribers together, in bytes. Defaults to 1 GiB.
	TotalBytes int
	// MaxConnections limits the connections of each call of Serve. If all are in use, a new one
	// replaces one of the client that has most. Defaults to 20,000.
	MaxConnections int
	// DrainTimeout limits the time that Serve waits for clients after the end of its context.
	// Defaults to 5 s; a negative value means not to wait.
	DrainTimeout time.Duration
}

func (o ServerOptions) validate() error {
	files := o.CertFile != "" || o.KeyFile != "" || o.ClientCAFile != ""
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("only one of CertFile and KeyFile is set: set both or neither")
	case o.ClientCAFile != "" && o.CertFile == "":
		return errors.New("ClientCAFile is set without CertFile and KeyFile: set all three")
	case files && o.TLS != nil:
		return errors.New("both TLS and CertFile are set: set one of them")
	case o.Insecure && (files || o.TLS != nil):
		return errors.New("both Insecure and TLS or CertFile are set: set one of them")
	case o.TLS != nil && o.TLS.MaxVersion != 0 && o.TLS.MaxVersion < tls.VersionTLS12:
		return fmt.Errorf("invalid TLS.MaxVersion: %s: must be at least TLS 1.2", tls.VersionName(o.TLS.MaxVersion))
	case o.MaxMessageSize < 0 || o.MaxMessageSize > defaultMaxMessageSize:
		return fmt.Errorf("invalid MaxMessageSize: %d: must be between 0 and %d", o.MaxMessageSize, defaultMaxMessageSize)
	case o.QueueBytes < 0:
		return fmt.Errorf("invalid QueueBytes: %d: must not be negative", o.QueueBytes)
	case o.TotalBytes < 0:
		return fmt.Errorf("invalid TotalBytes: %d: must not be negative", o.TotalBytes)
	case o.RecheckInterval < 0:
		return fmt.Errorf("invalid RecheckInterval: %s: must not be negative", o.RecheckInterval)
	case o.MaxConnections < 0:
		return fmt.Errorf("invalid MaxConnections: %d: must not be negative", o.MaxConnections)
	}
	return nil
}

func (o ServerOptions) withDefaults() ServerOptions {
	if o.Authorizer == nil {
		o.Authorizer = AuthorizeNames()
	}
	o.MaxMessageSize = cmp.Or(o.MaxMessageSize, defaultMaxMessageSize)
	o.QueueBytes = cmp.Or(o.QueueBytes, defaultQueueBytes)
	o.TotalBytes = cmp.Or(o.TotalBytes, defaultTotalBytes)
	o.MaxConnections = cmp.Or(o.MaxConnections, defaultConnections)
	o.RecheckInterval = cmp.Or(o.RecheckInterval, defaultRecheck)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	return o
}

func (o ServerOptions) limits() broker.Limits {
	return broker.Limits{QueueBytes: o.QueueBytes, TotalBytes: o.TotalBytes, Stall: stallTimeout}
}
