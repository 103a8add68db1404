// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// listener accepts the server ends of in-memory pipes.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	refusing bool
	dials    int
	open     []net.Conn
}

var _ net.Listener = &listener{}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// dial opens a pipe to the server, for rest.Config.
func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	l.dials++
	refusing := l.refusing
	l.mu.Unlock()
	if refusing {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, server)
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

func (l *listener) refuse(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing = refuse
}

// cut ends all connections.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		c.Close() //nolint:errcheck // of a pipe
	}
	l.open = nil
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "fake" }

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return addr{} }
