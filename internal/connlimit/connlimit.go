// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package connlimit shares the connections of a server among its clients. If all places are in use,
// a new connection replaces one of the client that has most, unless its own client would have as
// many. Connections before the end of their handshake have separate places, half as many, where a
// new connection replaces an older one.
package connlimit

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// HandshakeTimeout is the time limit for the handshake of a client.
const HandshakeTimeout = 5 * time.Second

// Listener limits connections.
type Listener struct {
	net.Listener
	closed func(peer net.Addr)

	mu                      sync.Mutex
	accepted                uint64
	handshakes, established *pool
}

// New returns a listener with places for a number of established connections. It calls closed with
// the address of each connection that it closes.
func New(listener net.Listener, places int, closed func(peer net.Addr)) *Listener {
	return &Listener{
		Listener: listener, closed: closed, handshakes: newPool(max(1, places/2)), established: newPool(places),
	}
}

// Accept implements [net.Listener]. It returns a *[Conn].
func (l *Listener) Accept() (net.Conn, error) { return l.AcceptConn() }

// AcceptConn is Accept with the concrete type of the connections.
func (l *Listener) AcceptConn() (*Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: accepted, listener: l, client: Address(accepted.RemoteAddr().String())}
	if oldest := l.enter(c); oldest != nil {
		oldest.cut()
	}
	return c, nil
}

func (l *Listener) enter(c *Conn) (oldest *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handshakes.size >= l.handshakes.places {
		oldest = l.handshakes.largest()[0]
		l.leaveLocked(oldest)
	}
	l.accepted++
	c.number, c.pool = l.accepted, l.handshakes
	l.handshakes.add(c)
	c.timer = time.AfterFunc(HandshakeTimeout, func() {
		l.mu.Lock()
		late := c.pool == l.handshakes
		if late {
			l.leaveLocked(c)
		}
		l.mu.Unlock()
		if late {
			c.cut()
		}
	})
	return oldest
}

func (l *Listener) leaveLocked(c *Conn) {
	if c.pool != nil {
		c.timer.Stop()
		c.pool.remove(c)
		c.pool = nil
	}
}

// establish moves c to the established connections. It returns whether c has a place, and the
// connection that loses its place, which may be c.
func (l *Listener) establish(c *Conn, client string) (open bool, lost *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.pool != l.handshakes {
		return c.pool != nil, nil
	}
	l.leaveLocked(c)
	if client != "" {
		c.client = client
	}
	if l.established.size >= l.established.places {
		most := l.established.largest()
		if len(most) <= len(l.established.clients[c.client])+1 {
			return false, c
		}
		lost = most[len(most)-1]
		l.leaveLocked(lost)
	}
	c.pool = l.established
	l.established.add(c)
	return true, lost
}

// Conn is a connection that has a place until it is closed.
type Conn struct {
	net.Conn
	listener *Listener

	// The mutex of the listener guards the following fields.
	number uint64
	client string
	pool   *pool // nil for a connection without a place
	timer  *time.Timer
}

// Establish ends the handshake, and returns whether the connection is open. Connections are counted
// by client, which defaults to the address. Further calls have no effect.
func (c *Conn) Establish(client string) bool {
	open, lost := c.listener.establish(c, client)
	if lost != nil {
		lost.cut()
	}
	return open
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.listener.leaveLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the direction to the client, if the underlying connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *Conn) cut() {
	c.listener.closed(c.RemoteAddr())
	_ = c.Conn.Close()
}

// pool has the connections of each client, the oldest first.
type pool struct {
	places  int
	clients map[string][]*Conn
	size    int // connections
}

func newPool(places int) *pool { return &pool{places: places, clients: map[string][]*Conn{}} }

func (p *pool) add(c *Conn) {
	p.clients[c.client] = append(p.clients[c.client], c)
	p.size++
}

func (p *pool) remove(c *Conn) {
	rest := slices.DeleteFunc(p.clients[c.client], func(other *Conn) bool { return other == c })
	p.size--
	if p.clients[c.client] = rest; len(rest) == 0 {
		delete(p.clients, c.client)
	}
}

// largest returns the connections of the client that has most. Of several such clients, it is the
// client with the oldest connection.
func (p *pool) largest() (most []*Conn) {
	for _, conns := range p.clients {
		if len(conns) > len(most) || len(conns) == len(most) && conns[0].number < most[0].number {
			most = conns
		}
	}
	return most
}

// Address returns the IP address of a peer, or its /64 network for IPv6.
func Address(peer string) string {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return peer
	}
	addr := at.Addr().Unmap().WithZone("")
	prefix, _ := addr.Prefix(min(64, addr.BitLen()))
	return prefix.String()
}
