// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package unfinished limits the memory of gRPC messages that clients have sent in part. gRPC collects
// a message until it is complete, for each stream, and has no limit for all streams together.
package unfinished

import (
	"errors"
	"net"
	"sync"
)

// Limit bounds the unfinished messages of a server. A connection that exceeds its limit is closed.
// If all together exceed the total, a connection of the client that has most is closed.
type Limit struct {
	conn, total int

	mu      sync.Mutex
	used    int
	clients map[string]*client
}

// client has the open connections of one client.
type client struct {
	used  int
	conns map[*Conn]struct{}
}

// New returns a limit in bytes for one connection and for all together. Both count memory: short
// frames take more than their length.
func New(conn, total int) *Limit {
	return &Limit{conn: conn, total: total, clients: map[string]*client{}}
}

// Wrap returns a connection that counts what c reads from a client with the given name. c is without
// TLS, or the decrypted side of it. cut closes it at once.
func (l *Limit) Wrap(c net.Conn, name string, cut func()) *Conn {
	wrapped := &Conn{Conn: c, limit: l, client: name, cut: cut, streams: map[uint32]*stream{}}
	wrapped.in = walker{preface: len(preface), frame: wrapped.receivedLocked, data: wrapped.dataLocked}
	wrapped.out = walker{frame: wrapped.sentLocked, data: func(uint32, []byte) {}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[name] == nil {
		l.clients[name] = &client{conns: map[*Conn]struct{}{}}
	}
	l.clients[name].conns[wrapped] = struct{}{}
	return wrapped
}

// ErrExceeded is the end of a connection that exceeds a limit.
var ErrExceeded = errors.New("the client has sent too much of unfinished messages")

// charge adds bytes to a connection, or removes them. It returns the connection to cut, or nil.
func (l *Limit) charge(c *Conn, n int) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	owner := l.clients[c.client]
	c.used += n
	owner.used += n
	l.used += n
	switch {
	case n <= 0:
		return nil
	case c.used > l.conn:
		return c
	case l.used > l.total:
		return l.largestLocked()
	}
	return nil
}

func (l *Limit) largestLocked() (largest *Conn) {
	var most *client
	for _, c := range l.clients {
		if most == nil || c.used > most.used {
			most = c
		}
	}
	for c := range most.conns {
		if largest == nil || c.used > largest.used {
			largest = c
		}
	}
	return largest
}

// leave removes a connection with all its bytes.
func (l *Limit) leave(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed.Swap(true) {
		return
	}
	owner := l.clients[c.client]
	owner.used -= c.used
	l.used -= c.used
	if delete(owner.conns, c); len(owner.conns) == 0 {
		delete(l.clients, c.client)
	}
}
