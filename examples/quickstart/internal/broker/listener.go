// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"log/slog"
	"net"
	"sync"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// listener accepts connections for mochi. mochi's own listener requests at Close that the server
// disconnects the clients. This takes a read lock inside the same read lock: a client that
// disconnects at that moment blocks it forever. This listener closes the connections itself, and
// waits for the end of each client.
type listener struct {
	accept net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	wg     sync.WaitGroup // clients being served
}

var _ listeners.Listener = (*listener)(nil)

func newListener(accept net.Listener) *listener {
	return &listener{accept: accept, conns: map[net.Conn]struct{}{}}
}

// ID returns the name of the listener in mochi.
func (l *listener) ID() string { return "quickstart" }

// Address returns the address of the listener.
func (l *listener) Address() string { return l.accept.Addr().String() }

// Protocol returns the network.
func (l *listener) Protocol() string { return l.accept.Addr().Network() }

// Init does nothing.
func (l *listener) Init(*slog.Logger) error { return nil }

// Serve passes connections to mochi until Close.
func (l *listener) Serve(establish listeners.EstablishFn) {
	for {
		conn, err := l.accept.Accept()
		if err != nil {
			return
		}
		if !l.add(conn) {
			_ = conn.Close()
			return
		}
		go func() {
			defer l.remove(conn)
			_ = establish(l.ID(), conn) // errors of clients are ignored
		}()
	}
}

// Close closes all connections and waits for the end of their clients.
func (l *listener) Close(listeners.CloseFn) {
	_ = l.accept.Close()
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// add records a connection. It returns false after Close.
func (l *listener) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[conn] = struct{}{}
	l.wg.Add(1)
	return true
}

func (l *listener) remove(conn net.Conn) {
	l.mu.Lock()
	delete(l.conns, conn)
	l.mu.Unlock()
	_ = conn.Close()
	l.wg.Done()
}
