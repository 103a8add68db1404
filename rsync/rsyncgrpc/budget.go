// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/connlimit"
)

var errBudget = errors.New(
	"the connection exceeds ServerOptions.MaxCallBytes or MaxConnections, or a header exceeds 4 KiB")

// Memory that gRPC uses in addition to the bytes of requests and answers.
const (
	// callBytes is for a call with a header of maxHeaderBytes. TestHeadersAreBounded measures it.
	callBytes = 40 << 10
	// dataBytes is for a DATA frame.
	dataBytes = 64
	// dataFactor is for a message and its encoding.
	dataFactor = 2
)

// budget limits the bytes of all calls together: headers and requests until their calls end, and
// answers until they are sent. It counts the frames of each connection, because gRPC has no such
// limit. Above the limit it closes connections.
type budget struct {
	limit  int
	logger klog.Logger
	closed func() // counts connections that exceed the budget

	mu        sync.Mutex
	used      int
	logged    time.Time
	closedOwn time.Time              // when a connection was closed for another one of its client
	conns     map[string]*budgetConn // by remote address
	clients   map[string]int         // bytes held
}

func newBudget(limit int, logger klog.Logger, closed func()) *budget {
	return &budget{
		limit: limit, logger: logger, closed: closed, conns: map[string]*budgetConn{}, clients: map[string]int{},
	}
}

const (
	// logInterval is the minimum time between two logs: hostile clients must not fill the log.
	logInterval = 10 * time.Second
	// closeInterval is the minimum time between two connections that are closed for other
	// connections of their client.
	closeInterval = 100 * time.Millisecond
)

// wrap returns a connection that counts its HTTP/2 frames.
func (b *budget) wrap(conn net.Conn, place *connlimit.Conn, client string) net.Conn {
	c := &budgetConn{
		Conn: conn, budget: b, place: place, client: client, calls: map[uint32]int{}, in: frames{skip: prefaceLength},
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[conn.RemoteAddr().String()] = c
	return c
}

// answer counts a message that is about to be sent to the client of a call.
func (b *budget) answer(ctx context.Context, message any) {
	m, isProto := message.(proto.Message)
	p, hasPeer := peer.FromContext(ctx)
	if !isProto || !hasPeer {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.conns[p.Addr.String()]; c != nil {
		n := dataFactor * (messageHeader + proto.Size(m))
		c.unsent += n
		b.chargeLocked(c, n)
	}
}

func (b *budget) chargeLocked(c *budgetConn, n int) {
	if c.over {
		return
	}
	c.held += n
	b.clients[c.client] += n
	b.used += n
	for b.used > b.limit {
		b.closeLocked(b.mostLocked(c), "Closed the connection with most bytes of the budget of all calls")
	}
}

func (b *budget) closeLocked(c *budgetConn, why string) {
	b.closed()
	if now := time.Now(); now.Sub(b.logged) > logInterval {
		b.logged = now
		b.logger.Info(why, "peer", c.RemoteAddr().String(), "bytes", c.held, "limit", b.limit)
	}
	b.releaseLocked(c, c.held)
	c.over = true
	go func() { _ = c.Conn.Close() }() // TLS may wait for the peer
}

// mostLocked returns the connection with the most bytes of the client with the most bytes. For the
// client of c it usually returns c: the memory of other connections is freed only after a while.
func (b *budget) mostLocked(c *budgetConn) *budgetConn {
	client := c.client
	for other, n := range b.clients {
		if n > b.clients[client] {
			client = other
		}
	}
	var most *budgetConn
	if c.client == client {
		most = c
		if now := time.Now(); now.Sub(b.closedOwn) > closeInterval {
			b.closedOwn = now
		} else {
			return c
		}
	}
	for _, other := range b.conns {
		if other.client == client && (most == nil || other.held > most.held) {
			most = other
		}
	}
	return most
}

func (b *budget) releaseLocked(c *budgetConn, n int) {
	if c.over {
		return
	}
	c.held -= n
	b.used -= n
	if b.clients[c.client] -= n; b.clients[c.client] == 0 {
		delete(b.clients, c.client)
	}
}

// budgetConn counts the bytes of the calls of one connection.
type budgetConn struct {
	net.Conn
	budget *budget
	place  *connlimit.Conn
	client string

	// The budget's mutex guards these fields.
	calls  map[uint32]int // bytes, by stream
	last   uint32         // stream
	unsent int            // bytes of answers
	held   int
	over   bool

	in, out frames // each is only used by its direction

	established, refused bool // only used by Read
}

// Read implements [net.Conn].
func (c *budgetConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.scan(p[:n], c.received)
	runtime.Gosched() // gRPC rejects earlier calls before it reads further calls
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.over || c.refused {
		return 0, errBudget
	}
	return n, err
}

// Write implements [net.Conn].
func (c *budgetConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.scan(p[:n], c.sent)
	return n, err
}

// Close implements [net.Conn].
func (c *budgetConn) Close() error {
	c.budget.mu.Lock()
	if addr := c.RemoteAddr().String(); c.budget.conns[addr] == c {
		delete(c.budget.conns, addr)
	}
	c.budget.releaseLocked(c, c.held)
	c.over = true
	c.budget.mu.Unlock()
	return c.Conn.Close()
}

func (c *budgetConn) received(f frame) {
	if !c.established {
		c.established, c.refused = true, !c.place.Establish(c.client)
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	switch f.kind {
	case frameHeaders:
		if f.stream > c.last { // later headers of a stream are trailers
			c.last, c.calls[f.stream] = f.stream, callBytes
			c.budget.chargeLocked(c, callBytes)
		}
	case frameData:
		if n, ok := c.calls[f.stream]; ok {
			c.calls[f.stream] = n + dataBytes + dataFactor*f.length
			c.budget.chargeLocked(c, dataBytes+dataFactor*f.length)
		}
	case frameReset:
		c.endLocked(f.stream)
	}
}

func (c *budgetConn) sent(f frame) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if f.kind == frameData {
		n := min(dataFactor*f.length, c.unsent)
		c.unsent -= n
		c.budget.releaseLocked(c, n)
	}
	if f.code == frameSizeError && !c.over {
		// Otherwise gRPC decodes the headers of all further calls before it rejects them.
		c.budget.closeLocked(c, "Closed a connection that sent a call with a header of more than 4 KiB")
	}
	if f.kind == frameReset || f.ends && (f.kind == frameData || f.kind == frameHeaders) {
		c.endLocked(f.stream)
	}
}

// endLocked ends a call. Answers to canceled calls are never sent, so their bytes are released with
// the last call of the connection.
func (c *budgetConn) endLocked(stream uint32) {
	c.budget.releaseLocked(c, c.calls[stream])
	delete(c.calls, stream)
	if len(c.calls) == 0 {
		c.budget.releaseLocked(c, c.unsent)
		c.unsent = 0
	}
}
