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
	// each TLS handshake. Clients without a certificate need a token. If empty, all clients need
	// tokens.
	ClientCAFile string
	// TLS is used instead of the three files. A version below TLS 1.2 is raised to it. To accept
	// client certificates, set its ClientCAs, and its ClientAuth to tls.VerifyClientCertIfGiven.
	TLS *tls.Config
	// Insecure serves without TLS. A client without a token then has an empty User, and the default
	// Authorizer denies all its requests.
	Insecure bool

	// Tokens authenticates clients with bearer tokens. If nil, tokens are ignored.
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
	// MaxQueueBytes limits the queue of a subscriber, in bytes. Defaults to 64 MiB.
	MaxQueueBytes int
	// MaxTotalQueueBytes limits the queues of all subscribers together, in bytes. When it is
	// reached, a queue with more than 64 KiB is full. Defaults to 1 GiB.
	MaxTotalQueueBytes int
	// MaxConnections limits the connections of each call of Serve. At the limit, the server closes
	// the newest connection of the client with the most connections, or the new connection if its
	// own client has as many. A client is the user of a certificate. Without certificates, it is an
	// IP address (of IPv6 a /64 network), so all clients behind one NAT count as one. Defaults to
	// 20,000.
	MaxConnections int
	// DrainTimeout limits the time that Serve waits for clients after the end of its context.
	// Defaults to 5 s; a negative value means not to wait.
	DrainTimeout time.Duration

	// OptionNames are the names of options in the program, by field, for example "--ca" for CAFile.
	// Errors of NewServer and of the server contain them instead of the fields. Defaults to none.
	OptionNames map[string]string `json:"-" yaml:"-"`
}

func (o ServerOptions) validate() error {
	files := o.CertFile != "" || o.KeyFile != "" || o.ClientCAFile != ""
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("only one of CertFile and KeyFile is set: set both or neither")
	case o.Insecure && (files || o.TLS != nil):
		return errors.New("both Insecure and TLS, CertFile or ClientCAFile are set: set one of them")
	case o.ClientCAFile != "" && o.CertFile == "":
		return errors.New("ClientCAFile is set without CertFile and KeyFile: set all three")
	case files && o.TLS != nil:
		return errors.New("both TLS and CertFile are set: set one of them")
	case o.TLS != nil && o.TLS.MaxVersion != 0 && o.TLS.MaxVersion < tls.VersionTLS12:
		return fmt.Errorf("invalid TLS.MaxVersion: %s: must be at least TLS 1.2", tls.VersionName(o.TLS.MaxVersion))
	case o.TLS != nil && len(o.TLS.Certificates) == 0 && o.TLS.GetCertificate == nil && o.TLS.GetConfigForClient == nil:
		return errors.New("TLS has no certificate: set TLS.Certificates, or CertFile and KeyFile instead of TLS")
	case o.MaxMessageSize < 0 || o.MaxMessageSize > defaultMaxMessageSize:
		return fmt.Errorf("invalid MaxMessageSize: %d: must be between 0 and %d", o.MaxMessageSize, defaultMaxMessageSize)
	case o.MaxQueueBytes < 0:
		return fmt.Errorf("invalid MaxQueueBytes: %d: must not be negative", o.MaxQueueBytes)
	case o.MaxTotalQueueBytes < 0:
		return fmt.Errorf("invalid MaxTotalQueueBytes: %d: must not be negative", o.MaxTotalQueueBytes)
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
	o.MaxQueueBytes = cmp.Or(o.MaxQueueBytes, defaultQueueBytes)
	o.MaxTotalQueueBytes = cmp.Or(o.MaxTotalQueueBytes, defaultTotalBytes)
	o.MaxConnections = cmp.Or(o.MaxConnections, defaultConnections)
	o.RecheckInterval = cmp.Or(o.RecheckInterval, defaultRecheck)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	return o
}

func (o ServerOptions) limits() broker.Limits {
	return broker.Limits{QueueBytes: o.MaxQueueBytes, TotalBytes: o.MaxTotalQueueBytes, Stall: stallTimeout}
}
