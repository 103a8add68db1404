// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpserve runs the HTTP servers of the tree. A slow or silent client costs a server one
// connection for a bounded time: headers, bodies, writes and idle connections have deadlines, and
// connections are limited, also per client. Streams and long waits may last, while their clients read.
package httpserve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// chunk is the most that one write deadline covers.
	chunk          = 64 << 10
	maxHeaderBytes = 64 << 10
)

// Options configures [Serve]. Handler is required.
type Options struct {
	Handler http.Handler
	// TLSConfig makes the server speak TLS.
	TLSConfig *tls.Config
	// HeaderTimeout limits the TLS handshake and a request's header. Defaults to 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout limits a request's body, from the end of its header. Defaults to 30 s.
	BodyTimeout time.Duration
	// WriteTimeout limits each 64 KiB of an answer. Defaults to 30 s.
	WriteTimeout time.Duration
	// AnswerTimeout limits an answer as a whole, from the end of the request's header. Zero means no limit.
	AnswerTimeout time.Duration
	// IdleTimeout limits the time between two requests of a connection. Defaults to 1 min.
	IdleTimeout time.Duration
	// MaxConns limits the open connections. Defaults to 1000.
	MaxConns int
	// MaxConnsPerClient limits those of one address, or of one /64 network of IPv6. Defaults to half of MaxConns.
	MaxConnsPerClient int
	// ShutdownTimeout is the time that requests have to end when ctx ends. Defaults to 2 s.
	ShutdownTimeout time.Duration
	// KeepRequests keeps the contexts of requests alive during that time.
	KeepRequests bool
	// OnShutdown is called when ctx ends. It ends streams.
	OnShutdown func()
}

func (o Options) withDefaults() Options {
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 10*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Minute)
	o.MaxConns = cmp.Or(o.MaxConns, 1000)
	o.MaxConnsPerClient = cmp.Or(o.MaxConnsPerClient, max(1, o.MaxConns/2))
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 2*time.Second)
	return o
}

// Serve serves on a listener until ctx ends. It then lets requests end for ShutdownTimeout, closes all connections and
// returns nil.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	o = o.withDefaults()
	logger := klog.FromContext(ctx)
	base := ctx
	if o.KeepRequests {
		base = context.WithoutCancel(ctx)
	}
	server := &http.Server{
		Handler:           withBodyTimeout(o.Handler, o.BodyTimeout),
		ReadHeaderTimeout: o.HeaderTimeout,
		WriteTimeout:      o.AnswerTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&errorLog{logger}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	if o.OnShutdown != nil {
		server.RegisterOnShutdown(o.OnShutdown)
	}
	var accepting net.Listener = &limited{Listener: listener, options: &o, clients: map[netip.Prefix]int{}}
	if o.TLSConfig != nil {
		accepting = tls.NewListener(accepting, o.TLSConfig)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(accepting) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(draining); err != nil {
		logger.Info("Cut off requests at the end", "after", o.ShutdownTimeout)
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withBodyTimeout sets a read deadline until the end of a body. http.Server.ReadTimeout would also end the contexts of
// requests that take longer to answer.
func withBodyTimeout(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(timeout))
			r.Body = &body{r.Body, control}
		}
		next.ServeHTTP(w, r)
	})
}

type body struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// limited closes connections that exceed a limit.
type limited struct {
	net.Listener
	options *Options

	mu      sync.Mutex
	open    int
	clients map[netip.Prefix]int
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(c)
		if l.enter(client) {
			leave := sync.OnceFunc(func() { l.leave(client) })
			return &conn{Conn: c, timeout: l.options.WriteTimeout, leave: leave}, nil
		}
		_ = c.Close()
	}
}

func clientOf(c net.Conn) netip.Prefix {
	const network = 64
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}
	}
	addr := at.Addr().Unmap().WithZone("")
	prefix, _ := addr.Prefix(min(network, addr.BitLen()))
	return prefix
}

func (l *limited) enter(client netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.options.MaxConns || l.clients[client] >= l.options.MaxConnsPerClient {
		return false
	}
	l.open++
	l.clients[client]++
	return true
}

func (l *limited) leave(client netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
}

// conn gives each chunk of a write a deadline.
type conn struct {
	net.Conn
	timeout time.Duration
	leave   func()

	mu       sync.Mutex
	deadline time.Time // set by the server or a handler
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		part := p[written:min(len(p), written+chunk)]
		if err := c.extend(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(part)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

func (c *conn) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.timeout)
	if !c.deadline.IsZero() && c.deadline.Before(deadline) {
		deadline = c.deadline
	}
	return c.Conn.SetWriteDeadline(deadline)
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// errorLog receives the messages of net/http. Clients cause most of them.
type errorLog struct{ logger klog.Logger }

// Write implements [io.Writer].
func (l *errorLog) Write(line []byte) (int, error) {
	l.logger.V(2).Info("HTTP server failed a connection", "problem", string(bytes.TrimSpace(line)))
	return len(line), nil
}
