// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"log/slog"
	"net"
	"sync"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// listener accepts connections for mochi. Its own one asks the server to disconnect the clients when it closes,
// and that takes a read lock within the same read lock: a client which leaves at that moment blocks it for good.
// This one closes the connections itself and waits until mochi is done with each.
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

// ID names the listener within mochi.
func (l *listener) ID() string { return "quickstart" }

// Address is where it listens.
func (l *listener) Address() string { return l.accept.Addr().String() }

// Protocol is the network.
func (l *listener) Protocol() string { return l.accept.Addr().Network() }

// Init has nothing to do.
func (l *listener) Init(*slog.Logger) error { return nil }

// Serve hands connections to mochi until Close.
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
			_ = establish(l.ID(), conn) // how a client ends is its own affair
		}()
	}
}

// Close ends all connections and returns when their clients are gone.
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

// add notes a connection; it returns false after Close.
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
