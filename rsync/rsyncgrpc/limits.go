// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
)

var errBudget = errors.New("the connection holds too much of ServerOptions.MaxCallBytes")

// budget bounds the bytes of all calls together: requests until their calls end, and answers until they are sent. gRPC has no
// such bound, so it counts the DATA frames of each connection. Beyond the limit it closes the connection that holds most.
type budget struct {
	limit  int
	logger klog.Logger
	closed func() // counts connections that exceed the budget

	mu     sync.Mutex
	used   int
	logged time.Time
	conns  map[string]*budgetConn // by remote address
}

func newBudget(limit int, logger klog.Logger, closed func()) *budget {
	return &budget{limit: limit, logger: logger, closed: closed, conns: map[string]*budgetConn{}}
}

// logInterval is the time between two logs of the same limit: hostile clients must not fill the log.
const logInterval = 10 * time.Second

// wrap returns a connection of HTTP/2 frames that counts.
func (b *budget) wrap(conn net.Conn) net.Conn {
	c := &budgetConn{Conn: conn, budget: b, calls: map[uint32]int{}, in: frames{skip: prefaceLength}}
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
		c.unsent += messageHeader + proto.Size(m)
		b.chargeLocked(c, messageHeader+proto.Size(m))
	}
}

// chargeLocked adds bytes to a connection, and closes connections until the budget suffices.
func (b *budget) chargeLocked(c *budgetConn, n int) {
	if c.over {
		return
	}
	c.held += n
	b.used += n
	for b.used > b.limit {
		most := c
		for _, other := range b.conns {
			if other.held > most.held {
				most = other
			}
		}
		b.closed()
		if now := time.Now(); now.Sub(b.logged) > logInterval {
			b.logged = now
			b.logger.Info("Closed the connection that held most of the byte budget of all calls", "peer", most.RemoteAddr().String(), "bytes", most.held, "limit", b.limit)
		}
		b.releaseLocked(most, most.held)
		most.over = true
		go func() { _ = most.Conn.Close() }() // TLS may wait for the peer
	}
}

func (b *budget) releaseLocked(c *budgetConn, n int) {
	if c.over {
		return
	}
	c.held -= n
	b.used -= n
}

// budgetConn counts what the calls of one connection hold. The fields after budget belong to its mutex.
type budgetConn struct {
	net.Conn
	budget *budget

	calls  map[uint32]int // bytes received, by stream
	last   uint32         // stream
	unsent int            // bytes of answers
	held   int
	over   bool

	in, out frames // each belongs to its direction
}

// Read implements [net.Conn].
func (c *budgetConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.scan(p[:n], c.received)
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.over {
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
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	switch f.kind {
	case frameHeaders:
		if f.stream > c.last { // later ones of a stream are trailers
			c.last, c.calls[f.stream] = f.stream, 0
		}
	case frameData:
		if n, ok := c.calls[f.stream]; ok {
			c.calls[f.stream] = n + f.length
			c.budget.chargeLocked(c, f.length)
		}
	case frameReset:
		c.endLocked(f.stream)
	}
}

func (c *budgetConn) sent(f frame) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if f.kind == frameData {
		n := min(f.length, c.unsent)
		c.unsent -= n
		c.budget.releaseLocked(c, n)
	}
	if f.kind == frameReset || f.ends && (f.kind == frameData || f.kind == frameHeaders) {
		c.endLocked(f.stream)
	}
}

// endLocked ends a call. Answers that a client canceled are never sent, so they end with the connection's last call.
func (c *budgetConn) endLocked(stream uint32) {
	c.budget.releaseLocked(c, c.calls[stream])
	delete(c.calls, stream)
	if len(c.calls) == 0 {
		c.budget.releaseLocked(c, c.unsent)
		c.unsent = 0
	}
}

// The parts of HTTP/2 (RFC 9113) and of gRPC that the budget needs.
const (
	prefaceLength     = 24
	frameHeaderLength = 9
	messageHeader     = 5

	frameData    = 0x0
	frameHeaders = 0x1
	frameReset   = 0x3
	flagEnd      = 0x1
)

type frame struct {
	length int
	kind   byte
	ends   bool
	stream uint32
}

// frames finds the headers of frames in one direction of a connection.
type frames struct {
	skip   int // bytes until the next header
	header [frameHeaderLength]byte
	have   int
}

func (s *frames) scan(p []byte, each func(frame)) {
	for len(p) > 0 {
		if n := min(s.skip, len(p)); n > 0 {
			s.skip -= n
			p = p[n:]
			continue
		}
		n := copy(s.header[s.have:], p)
		s.have += n
		p = p[n:]
		if s.have < frameHeaderLength {
			return
		}
		s.have = 0
		h := s.header
		s.skip = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		each(frame{length: s.skip, kind: h[3], ends: h[4]&flagEnd != 0, stream: binary.BigEndian.Uint32(h[5:]) &^ (1 << 31)})
	}
}

// budgetCredentials wraps connections after the handshake.
type budgetCredentials struct {
	credentials.TransportCredentials
	budget *budget
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c budgetCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return c.budget.wrap(conn), info, nil
}

// Clone implements [credentials.TransportCredentials].
func (c budgetCredentials) Clone() credentials.TransportCredentials {
	return budgetCredentials{c.TransportCredentials.Clone(), c.budget}
}

// bodyTimerKey is the context key of the timer that ends a call whose request does not arrive.
type bodyTimerKey struct{}

// bodyDeadline starts the timer of a call. It runs on gRPC's reader, so it does not block.
func bodyDeadline(timeout time.Duration) tap.ServerInHandle {
	return func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(timeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
		return context.WithValue(ctx, bodyTimerKey{}, timer), nil
	}
}

// bodyArrived stops the timer.
func bodyArrived(ctx context.Context) {
	if timer, ok := ctx.Value(bodyTimerKey{}).(*time.Timer); ok {
		timer.Stop()
	}
}

// callStream has a context with a logger, and observes messages.
type callStream struct {
	grpc.ServerStream
	ctx    context.Context
	budget *budget
}

// Context returns it.
func (s *callStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *callStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	bodyArrived(s.ctx)
	return err
}

// SendMsg implements [grpc.ServerStream].
func (s *callStream) SendMsg(m any) error {
	s.budget.answer(s.ctx, m)
	return s.ServerStream.SendMsg(m)
}

// limitListener closes connections beyond a number.
type limitListener struct {
	net.Listener
	slots  chan struct{}
	logger klog.Logger
}

// Accept implements [net.Listener].
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slotConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			l.logger.V(1).Info("Closed a connection beyond ServerOptions.MaxConnections", "peer", conn.RemoteAddr().String(), "limit", cap(l.slots))
			_ = conn.Close()
		}
	}
}

type slotConn struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *slotConn) Close() error {
	c.release()
	return c.Conn.Close()
}
