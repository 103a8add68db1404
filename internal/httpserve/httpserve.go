// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpserve runs the HTTP servers of the SDK. Headers, bodies, writes and idle connections
// have deadlines, and connections are shared among clients. Streams and long waits may continue
// while their clients read.
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
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/connlimit"
)

const (
	chunk          = 64 << 10               // bytes for one write deadline
	maxDrained     = 32 << 20               // bytes that are read of a body after its handler has returned
	drainPause     = 500 * time.Millisecond // that such a body may pause before the answer ends
	maxHeaderLines = 100
	maxHeaderBytes = 12 << 10 // net/http reads 4 KiB more
)

// Options configures [Serve]. Handler is required.
type Options struct {
	Handler http.Handler
	// TLSConfig enables TLS, with HTTP/1.1 only: a connection of HTTP/2 would have many requests.
	TLSConfig *tls.Config
	// HeaderTimeout limits the TLS handshake and a request's header. Defaults to 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout limits a request's body, from the end of its header. Defaults to 30 s.
	BodyTimeout time.Duration
	// WriteTimeout limits each 64 KiB of an answer. Defaults to 30 s.
	WriteTimeout time.Duration
	// AnswerTimeout limits an answer as a whole, from the end of the request's header. Zero means
	// no limit.
	AnswerTimeout time.Duration
	// IdleTimeout limits the time between two requests of a connection. Defaults to 1 min.
	IdleTimeout time.Duration
	// MaxBody is the size limit of a body. If it is set, bodies are read before the handler is
	// called, within memory that all requests share. Requests take turns until their answers begin,
	// so a handler that waits must call [EndTurn]. Zero leaves all of that to the handlers.
	MaxBody int64
	// MaxConns limits the open connections, see [connlimit.Listener]. Defaults to 1000.
	MaxConns int
	// ShutdownTimeout is the time limit for requests after ctx ends. Defaults to 2 s.
	ShutdownTimeout time.Duration
	// KeepRequests keeps the contexts of requests alive during that time.
	KeepRequests bool
	// OnShutdown is called when ctx ends. It must end streams.
	OnShutdown func()
}

func (o Options) withDefaults() Options {
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 10*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Minute)
	o.MaxConns = cmp.Or(o.MaxConns, 1000)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 2*time.Second)
	return o
}

// Serve serves on a listener until ctx ends. Then it waits up to ShutdownTimeout for requests,
// closes all connections and returns nil.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	o = o.withDefaults()
	logger := klog.FromContext(ctx)
	base := ctx
	if o.KeepRequests {
		base = context.WithoutCancel(ctx)
	}
	server := &http.Server{
		Handler:           withEstablished(withBodyTimeout(withTurns(o.Handler, o.MaxBody), o.BodyTimeout)),
		ReadHeaderTimeout: o.HeaderTimeout,
		WriteTimeout:      o.AnswerTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(&errorLog{logger}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withConn,
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := c.(*conn); ok && state == http.StateIdle {
				c.header(true)
			}
		},
	}
	if o.OnShutdown != nil {
		server.RegisterOnShutdown(o.OnShutdown)
	}
	limited := connlimit.New(listener, o.MaxConns, func(peer net.Addr) {
		logger.V(2).Info("Closed a connection", "peer", peer.String(), "limit", o.MaxConns)
	})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(&connections{limited, o.TLSConfig, o.WriteTimeout}) }()
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

// withBodyTimeout sets a read deadline until the end of a body. http.Server.ReadTimeout would also
// end the contexts of requests that take longer to answer.
func withBodyTimeout(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), deadline: time.Now().Add(timeout)}
		_ = b.control.SetReadDeadline(b.deadline)
		r.Body = b
		expects := r.Header.Get("Expect") != ""
		next.ServeHTTP(w, r)
		if !expects {
			b.drain()
		}
	})
}

type body struct {
	io.ReadCloser
	control  *http.ResponseController
	deadline time.Time
	ended    bool // also after an error
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// drain sends the answer and reads the rest of a body: a client that still writes when the
// connection is closed may lose the answer.
func (b *body) drain() {
	if b.ended {
		return
	}
	b.pause()
	_ = b.control.Flush() // Flush reads, too
	buffer := make([]byte, 16<<10)
	for drained := 0; drained < maxDrained && !b.ended; {
		b.pause()
		n, _ := b.Read(buffer)
		drained += n
	}
}

func (b *body) pause() {
	end := time.Now().Add(drainPause)
	if b.deadline.Before(end) {
		end = b.deadline
	}
	_ = b.control.SetReadDeadline(end)
}

// errorLog receives the messages of net/http. Clients cause most of them.
type errorLog struct{ logger klog.Logger }

// Write implements [io.Writer].
func (l *errorLog) Write(line []byte) (int, error) {
	l.logger.V(2).Info("HTTP server failed a connection", "problem", string(bytes.TrimSpace(line)))
	return len(line), nil
}
