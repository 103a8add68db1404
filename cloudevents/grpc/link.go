// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

const (
	// goodbye bounds the time to report the end of a connection to the server.
	goodbye = 500 * time.Millisecond
	// clientFrame is the largest frame that a client receives. OCM's servers send events of any size.
	clientFrame = 64 << 20
	// streamWindow and connWindow are the HTTP/2 windows. gRPC would otherwise grow them up to 16 MiB.
	streamWindow, connWindow = 1 << 20, 1 << 20
)

// link is a TCP connection, with TLS unless Options.Insecure is set, and gRPC's client on it.
type link struct {
	net.Conn // encrypted
	raw      net.Conn
	client   *grpc.ClientConn
	dialed   atomic.Bool

	mu       sync.Mutex
	answered bool  // the server has sent bytes after the handshake
	broken   error // the first error of Read
}

// dial opens a link. It calls step with the name of each stage before it waits.
func (s *settings) dial(ctx context.Context, step func(string)) (*link, error) {
	step("the TCP connection")
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: raw, raw: raw}
	proof := insecure.NewCredentials()
	if s.tls != nil {
		step("the TLS handshake")
		if proof, err = l.handshake(ctx, s.tls); err != nil {
			_ = raw.Close()
			return nil, err
		}
	}
	l.client, err = grpc.NewClient("passthrough:///"+s.address,
		grpc.WithTransportCredentials(proof),
		grpc.WithContextDialer(l.dialer),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: s.keepAlive, Timeout: s.keepAlive / 2}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(grpcwire.NewCodec()), grpc.MaxCallRecvMsgSize(clientFrame)),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		_ = l.Conn.Close()
		return nil, err
	}
	return l, nil
}

// dialer passes the connection to gRPC once. Later, another connection has another link.
func (l *link) dialer(context.Context, string) (net.Conn, error) {
	if l.dialed.Swap(true) {
		return nil, errors.New("the connection has ended")
	}
	return l, nil
}

func (l *link) handshake(
	ctx context.Context, config func() (*tls.Config, error),
) (credentials.TransportCredentials, error) {
	c, err := config()
	if err != nil {
		return nil, fileError(err)
	}
	c.NextProtos = []string{"h2"}
	conn := tls.Client(l.raw, c)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, adviseTLS(fileError(fmt.Errorf("TLS handshake: %w", err)))
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "h2" {
		return nil, &cloudevents.PermanentError{Err: errors.New("the server does not speak HTTP/2: check the port")}
	}
	l.Conn = conn
	return shaken{credentials.TLSInfo{
		State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}}, nil
}

func adviseTLS(err error) error {
	advice, permanent := permanentTLS(err)
	if advice != "" {
		err = fmt.Errorf("%w (%s)", err, advice)
	}
	if permanent {
		return &cloudevents.PermanentError{Err: err}
	}
	return err
}

// Read implements [net.Conn].
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = l.answered || n > 0
	if err != nil && l.broken == nil {
		l.broken = err
	}
	return n, err
}

// Write implements [net.Conn]. With TLS 1.3 a server that refuses the client's certificate sends its
// reason and closes. Then writing may fail before gRPC reads the reason.
func (l *link) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if err != nil && !l.hasAnswered() {
		_ = l.SetReadDeadline(time.Now().Add(goodbye))
		_, _ = l.Read(make([]byte, 1))
	}
	return n, err
}

func (l *link) hasAnswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// reason returns the reason why the link ended, or nil.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// close ends the link. The server gets the last frames if it reads.
func (l *link) close() {
	_ = l.raw.SetWriteDeadline(time.Now().Add(goodbye)) // gRPC would wait for 5 s
	late := time.AfterFunc(2*goodbye, func() { _ = l.raw.Close() })
	defer late.Stop()
	_ = l.client.Close()
	if !l.dialed.Swap(true) {
		_ = l.Conn.Close()
	}
}

// shaken are the credentials of a connection after its handshake.
type shaken struct{ info credentials.TLSInfo }

// ClientHandshake implements [credentials.TransportCredentials].
func (s shaken) ClientHandshake(
	_ context.Context, _ string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return conn, s.info, nil
}

// ServerHandshake implements [credentials.TransportCredentials].
func (s shaken) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the credentials are for clients")
}

// Info implements [credentials.TransportCredentials].
func (s shaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", SecurityVersion: "1.2"} //nolint:staticcheck // unused
}

// Clone implements [credentials.TransportCredentials].
func (s shaken) Clone() credentials.TransportCredentials { return s }

// OverrideServerName implements [credentials.TransportCredentials].
func (s shaken) OverrideServerName(string) error { return nil }

// withToken adds the token to the calls of ctx.
func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}
