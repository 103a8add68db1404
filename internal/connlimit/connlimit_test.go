// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package connlimit_test

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/connlimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a listener of connections in memory.
type queue chan net.Conn

// Accept implements [net.Listener].
func (q queue) Accept() (net.Conn, error) {
	c, ok := <-q
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements [net.Listener].
func (q queue) Close() error { return nil }

// Addr implements [net.Listener].
func (q queue) Addr() net.Addr { return &net.TCPAddr{} }

// peer is one end of a connection, with the address of the client.
type peer struct {
	net.Conn
	addr string
}

// RemoteAddr implements [net.Conn].
func (p peer) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(p.addr), Port: 1}
}

type fixture struct {
	t        *testing.T
	accepted queue
	listener *connlimit.Listener
	closed   atomic.Int32
}

func newFixture(t *testing.T, places int) *fixture {
	f := &fixture{t: t, accepted: make(queue, 1)}
	f.listener = connlimit.New(f.accepted, places, func(net.Addr) { f.closed.Add(1) })
	return f
}

// client has both ends of a connection.
type client struct {
	*connlimit.Conn
	far net.Conn
}

func (f *fixture) connect(addr string) client {
	f.t.Helper()
	far, near := net.Pipe()
	f.accepted <- peer{near, addr}
	c, err := f.listener.AcceptConn()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _, _ = c.Close(), far.Close() })
	return client{c, far}
}

func (f *fixture) established(addr, name string) client {
	f.t.Helper()
	c := f.connect(addr)
	c.Establish(name)
	return c
}

func (c client) open() bool {
	_ = c.far.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.far.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}

func (f *fixture) want(what string, c client, open bool) {
	f.t.Helper()
	if c.open() != open {
		f.t.Errorf("%s: open %v", what, !open)
	}
}

// TestSilentClients checks that silent connections are closed after a time. They block neither
// other addresses nor their own.
func TestSilentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 20)
		honest := f.connect("10.0.0.2")
		var silent []client
		for range 1000 {
			silent = append(silent, f.connect("10.0.0.1"))
		}
		same := f.connect("10.0.0.1")
		f.want("the first silent connection", silent[0], false)
		f.want("the last silent connection", silent[999], true)
		for _, c := range []client{honest, same} {
			c.Establish("")
			f.want("an honest connection", c, true)
		}
		time.Sleep(connlimit.HandshakeTimeout + time.Second)
		f.want("the last silent connection, later", silent[999], false)
		f.want("an honest connection, later", honest, true)
		f.want("an honest connection of the address of silent ones, later", same, true)
		if n := f.closed.Load(); n != 1000 {
			t.Errorf("%d connections were closed", n)
		}
	})
}

// TestShares checks that a new client gets a place from the client with the most connections.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 6)
		var a []client
		for range 6 {
			a = append(a, f.established("10.0.0.1", ""))
		}
		f.want("a connection beyond the limit, of the client that has all", f.established("10.0.0.1", ""), false)
		for i := range 3 {
			f.want("a connection of another client", f.established("10.0.0.2", ""), true)
			f.want("the oldest connection that had to go", a[5-i], false)
		}
		f.want("a connection of a client with as many", f.established("10.0.0.2", ""), false)
		named := f.established("10.0.0.1", "named")
		f.want("a client with a name, from the same address", named, true)
		other := f.established("10.0.0.1", "other")
		f.want("a client with another name", other, true)
		_ = named.Close()
		f.want("a connection when there is room", f.established("10.0.0.1", ""), true)
	})
}

// TestEstablishLate checks that the end of a handshake does not reopen a closed connection.
func TestEstablishLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		first := f.connect("10.0.0.1")
		second := f.connect("10.0.0.1")
		first.Establish("")
		f.want("a connection that lost its place", first, false)
		second.Establish("")
		second.Establish("")
		f.want("the other", second, true)
		_, _ = second.Close(), second.Close()
		third := f.established("10.0.0.1", "")
		f.want("a connection after it", third, true)
	})
}

// TestAddress checks that an IPv6 client counts as its network.
func TestAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1:1": "10.0.0.1/32", "[::ffff:10.0.0.1]:2": "10.0.0.1/32",
		"[2001:db8::1]:1": "2001:db8::/64", "[2001:db8::2]:2": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		if got := connlimit.Address(addr); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
}
