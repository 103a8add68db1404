// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// DefaultAddr is the default address of a server: EMCO's port on the loopback interface.
const DefaultAddr = "127.0.0.1:9031"

// defaultMaxMessageBytes is the default limit of a message, for example a context or a status.
const defaultMaxMessageBytes = 32 << 20

// Options configures the services; the zero value is useful.
type Options struct {
	// Name is a label of the metrics. Defaults to "rsync".
	Name string
	// WithoutEMCO omits EMCO's services.
	WithoutEMCO bool
	// EMCOImporter reads app contexts that EMCO's orchestrator wrote: [*emco.Bridge] of package
	// rsync/emco. With it, InstallApp, UpdateApp and RollbackApp first create the app context to
	// which they lead. The Authorizer checks the apps and clusters of the app context with the verb
	// of the call. If EMCOImporter is nil, app contexts must be created before.
	EMCOImporter Importer
	// Authorizer allows or denies each call. Nil allows all calls of all connected clients.
	Authorizer Authorizer
	// WatchBuffer is the number of unread changes of a Watch in memory. Defaults to 256.
	WatchBuffer int
	// WatchLag is the time after which a Watch with a full buffer is ended. It also limits how long
	// a message of Diff and Detached may wait for its client. Defaults to 10 s.
	WatchLag time.Duration
	// MetricsRegisterer receives the metrics that METRICS.md lists. Nil means no metrics.
	MetricsRegisterer prometheus.Registerer
}

// Importer reads app contexts from another system. It may be called from any goroutine.
type Importer interface {
	// Import returns an app context. It returns rsync.ErrNotFound if the app context does not
	// exist, and an error with the key if it cannot be used.
	Import(ctx context.Context, id string) (*appcontext.AppContext, error)
	// FollowStop stops an app context in the engine, or clears its stop, if the other system
	// requires it. EMCO's services call it before they queue an event.
	FollowStop(ctx context.Context, id string) error
}

func (o *Options) validate() error {
	if o.WatchBuffer < 0 || o.WatchLag < 0 {
		return fmt.Errorf("%w: Options.WatchBuffer and WatchLag: must not be negative", rsync.ErrInvalidInput)
	}
	if rules, ok := o.Authorizer.(Rules); ok {
		return rules.validate()
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "rsync")
	o.WatchBuffer = cmp.Or(o.WatchBuffer, 256)
	o.WatchLag = cmp.Or(o.WatchLag, 10*time.Second)
	return o
}

// ServerOptions configures a [Server]. CertFile, KeyFile, and ClientCAFile or AnyClient are
// required, unless Insecure is set.
type ServerOptions struct {
	Options
	// Addr is the address of the server, host:port. Defaults to DefaultAddr. Port 0 selects a free
	// port: see [Server.Addr].
	Addr string

	// CertFile has the server's certificate and intermediate certificates, KeyFile its key, in PEM.
	CertFile, KeyFile string
	// ClientCAFile holds the CAs of clients in PEM. Only clients with a certificate of these CAs
	// can connect. Without an Authorizer they may make all calls.
	ClientCAFile string
	// AnyClient accepts clients without a certificate. Without an Authorizer, every client that
	// reaches Addr may then create any object on any cluster.
	AnyClient bool
	// Insecure serves every client without TLS. It is for tests, and for a proxy with TLS.
	Insecure bool
	// Reflection serves gRPC reflection, which lists all services and messages to every client.
	Reflection bool

	// MaxMessageBytes limits a request. Defaults to 32 MiB.
	MaxMessageBytes int
	// MaxCallBytes limits the bytes of all calls together. Each open call counts 40 KiB. Requests
	// count twice until their calls end, and answers count twice until they are sent. A compressed
	// request counts only its compressed size, so import no compressor. Above MaxCallBytes the server
	// closes the largest connection of the client with the most bytes. If the bytes that exceeded the
	// limit came from this client, the server closes the connection that sent them; only once per 100
	// ms it closes the largest connection instead.
	//
	// A client is identified by the names in its certificate, without a certificate by its address,
	// and for IPv6 by its /64 network. Without certificates, all clients behind one proxy are one
	// client. One message of MaxMessageBytes always fits. Defaults to 128 MiB.
	MaxCallBytes int
	// RequestTimeout limits the time in which the request of a call arrives. Defaults to 30 s.
	RequestTimeout time.Duration
	// MaxConnections limits the connections. A further connection replaces a connection of the
	// client with the most connections. If the new connection is from this client, the server
	// closes the new one. Half as many connections may be in their handshake, for 5 s each.
	// Defaults to 1,000.
	MaxConnections int
	// MaxConcurrentStreams limits the concurrent calls of one connection. Defaults to 100.
	MaxConcurrentStreams uint32
	// MinKeepAlive is the shortest allowed interval of keepalive pings of clients. The server
	// disconnects a client that pings more often. Defaults to 5 s.
	MinKeepAlive time.Duration
	// KeepAlive is the idle time of a connection after which the server sends a keepalive ping.
	// Without an answer it closes the connection after another half of this time. Defaults to 30 s.
	KeepAlive time.Duration
	// ShutdownTimeout limits how long Start waits for calls in progress when it ends. Waits and
	// watches end at once. Defaults to 10 s.
	ShutdownTimeout time.Duration
	// ServerOptions are additional options of the gRPC server, for example interceptors, but not
	// Credentials or an InTapHandle, on which the limits above depend.
	ServerOptions []grpc.ServerOption
}

func (o *ServerOptions) validate() error {
	if _, _, err := net.SplitHostPort(o.Addr); o.Addr != "" && err != nil {
		return fmt.Errorf("%w: ServerOptions.Addr: %q: must be host:port: %w", rsync.ErrInvalidInput, o.Addr, err)
	}
	var problem error
	switch {
	case o.Insecure && (o.AnyClient || o.CertFile != "" || o.KeyFile != "" || o.ClientCAFile != ""):
		problem = errors.New("ServerOptions.Insecure: excludes CertFile, KeyFile, ClientCAFile and AnyClient")
	case !o.Insecure && (o.CertFile == "" || o.KeyFile == ""):
		problem = errors.New("ServerOptions.CertFile and KeyFile: must be set: set Insecure to serve without TLS")
	case !o.Insecure && o.ClientCAFile == "" && !o.AnyClient:
		problem = errors.New("ServerOptions.ClientCAFile: must be set: set AnyClient to accept clients without a " +
			"certificate")
	case o.ClientCAFile != "" && o.AnyClient:
		problem = errors.New("ServerOptions.ClientCAFile: excludes AnyClient")
	case o.MaxMessageBytes < 0 || o.MinKeepAlive < 0 || o.KeepAlive < 0 || o.ShutdownTimeout < 0 ||
		o.MaxConnections < 0 || o.RequestTimeout < 0:
		problem = errors.New("ServerOptions.MaxMessageBytes, MaxConnections and durations: must not be negative")
	case o.MaxCallBytes != 0 && o.MaxCallBytes < cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes):
		problem = errors.New("ServerOptions.MaxCallBytes: must not be less than MaxMessageBytes")
	}
	if problem != nil {
		return fmt.Errorf("%w: %w", rsync.ErrInvalidInput, problem)
	}
	return o.Options.validate()
}

func (o ServerOptions) withDefaults() ServerOptions {
	o.Options = o.Options.withDefaults()
	o.Addr = cmp.Or(o.Addr, DefaultAddr)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes)
	o.MaxCallBytes = cmp.Or(o.MaxCallBytes, max(128<<20, o.MaxMessageBytes))
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 30*time.Second)
	o.MaxConnections = cmp.Or(o.MaxConnections, 1000)
	o.MaxConcurrentStreams = cmp.Or(o.MaxConcurrentStreams, 100)
	o.MinKeepAlive = cmp.Or(o.MinKeepAlive, 5*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 10*time.Second)
	return o
}

// ClientOptions configures a [Client]. The zero value uses TLS with the CAs of the system.
type ClientOptions struct {
	// CAFile holds the CAs of the server in PEM. Defaults to the CAs of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate and key in PEM. Most servers require them.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate. Defaults to the host of the target.
	ServerName string
	// Insecure connects without TLS.
	Insecure bool

	// RetryTimeout limits the time in which the client repeats a call after failures of the
	// connection or the server. Wait and Watch have no limit. Defaults to 30 s. A negative value
	// disables retries.
	RetryTimeout time.Duration
	// Backoff is the delay before the next attempt. Defaults to 100 ms, which doubles up to 5 s.
	Backoff rsync.Backoff
	// KeepAlive is the idle time of a connection after which the client sends a keepalive ping.
	// Without an answer it closes the connection after another half of this time. At least 10 s.
	// Defaults to 20 s.
	KeepAlive time.Duration
	// MaxMessageBytes limits an answer. Defaults to 32 MiB.
	MaxMessageBytes int
	// DialOptions are additional options of the gRPC client.
	DialOptions []grpc.DialOption
}

func (o *ClientOptions) validate(target string) error {
	var problem error
	switch {
	case target == "":
		problem = errors.New("target: must be host:port, and is empty")
	case o.Insecure && (o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" || o.ServerName != ""):
		problem = errors.New("ClientOptions.Insecure: excludes certificates and ServerName")
	case (o.CertFile == "") != (o.KeyFile == ""):
		problem = errors.New("ClientOptions.CertFile and KeyFile: must be set together")
	case o.MaxMessageBytes < 0 || o.Backoff.Base < 0 || o.Backoff.Max < 0:
		problem = errors.New("ClientOptions.MaxMessageBytes and Backoff: must not be negative")
	case o.KeepAlive != 0 && o.KeepAlive < 10*time.Second:
		problem = errors.New("ClientOptions.KeepAlive: must be at least 10 s")
	}
	if problem != nil {
		return fmt.Errorf("%w: %w", rsync.ErrInvalidInput, problem)
	}
	return nil
}

func (o ClientOptions) withDefaults() ClientOptions {
	o.RetryTimeout = cmp.Or(o.RetryTimeout, 30*time.Second)
	o.Backoff.Base = cmp.Or(o.Backoff.Base, 100*time.Millisecond)
	o.Backoff.Max = max(cmp.Or(o.Backoff.Max, 5*time.Second), o.Backoff.Base)
	o.KeepAlive = cmp.Or(o.KeepAlive, 20*time.Second)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes)
	return o
}
