// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/internal/connlimit"
)

var errManyLines = errors.New("the header has too many lines")

type connections struct {
	*connlimit.Listener
	tls     *tls.Config
	timeout time.Duration
}

// Accept implements [net.Listener].
func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, place: accepted, timeout: l.timeout, inHeader: true}
	if l.tls != nil {
		c.encrypted = tls.Server(accepted, l.tls)
		c.Conn = c.encrypted
	}
	return c, nil
}

// conn sets a deadline for each chunk of a write. It also limits the lines of headers, because a
// line may need 100 times its size in memory.
type conn struct {
	net.Conn
	place     *connlimit.Conn
	encrypted *tls.Conn // nil without TLS
	timeout   time.Duration

	mu       sync.Mutex
	deadline time.Time // set by the server or a handler
	endTurn  func()    // called by the next write, or nil
	inHeader bool
	lines    int
	empty    bool // the current line is empty so far
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// withEstablished ends the handshake of a connection at the end of its first header.
func withEstablished(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.header(false)
			if !c.place.Establish("") {
				return
			}
			if c.encrypted != nil {
				state := c.encrypted.ConnectionState()
				r.TLS = &state
			}
		}
		next.ServeHTTP(w, r)
		// A client that has sent many requests at once must not occupy a processor until the
		// scheduler's time slice ends.
		runtime.Gosched()
	})
}

func (c *conn) header(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inHeader, c.lines, c.empty = begins, 0, false
}

// Read implements [io.Reader].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.scan(p[:n]) {
		return 0, errManyLines
	}
	return n, err
}

// scan counts the lines of a header, which ends with an empty line. It returns false if there are
// too many.
func (c *conn) scan(p []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.inHeader && len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		c.empty = c.empty && len(bytes.Trim(line, "\r")) == 0
		if !ended {
			break
		}
		if c.empty {
			c.inHeader = false
			break
		}
		if c.lines++; c.lines > maxHeaderLines {
			return false
		}
		p, c.empty = rest, true
	}
	return true
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

func (c *conn) answers(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endTurn = end
}

func (c *conn) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endTurn != nil {
		c.endTurn()
		c.endTurn = nil
	}
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

// CloseWrite lets net/http wait after it answers a request before the end of its body. Otherwise
// the answer may be lost.
func (c *conn) CloseWrite() error {
	if c.encrypted != nil {
		return c.encrypted.CloseWrite()
	}
	return c.place.CloseWrite()
}
