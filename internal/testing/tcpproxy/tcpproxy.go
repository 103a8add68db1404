// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package tcpproxy puts a bad network between a client and a server in a test.
//
//	proxy := tcpproxy.Start(t, broker.Addr())
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://" + proxy.Addr()})
//	…
//	proxy.Block() // reject new connections,
//	proxy.Cut()   // and close existing connections
//
// The proxy forwards bytes of any protocol. It uses real sockets and real time, so it cannot be
// used inside a testing/synctest bubble.
package tcpproxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// dialLimit limits the dial of the target. On a loopback address, only a target with a full backlog
// takes noticeable time.
const dialLimit = 5 * time.Second

// Proxy listens on its own port and forwards to one target, or to several targets in turn. Its
// methods may be called concurrently. It ends with its test, and closes all its links.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	targets []string // the next connection goes to the first
	links   map[*link]struct{}
	blocked bool
	closed  bool
	delay   time.Duration
	rate    int
	tap     func([]byte)
	flow    chan struct{} // closed while bytes may pass
}

// Start listens on a free port of 127.0.0.1 and forwards each connection to a target (host:port),
// which need not listen yet. Several targets receive connections in turn.
func Start(t testing.TB, targets ...string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("tcpproxy: %v", err)
	}
	p := &Proxy{targets: targets, listener: listener, links: map[*link]struct{}{}, flow: make(chan struct{})}
	close(p.flow)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns the address, host:port, that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Links returns the number of forwarded connections.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Forward forwards new connections to another target. A test that restarts a server needs it,
// because another program may have bound the server's port.
func (p *Proxy) Forward(target string) { p.set(func() { p.targets = []string{target} }) }

// Cut closes every link immediately, on both sides, and drops the bytes in transit. New connections
// are forwarded as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Block accepts and resets new connections. It does not close the listener, which might not get its
// port again. Links stay open.
func (p *Proxy) Block() { p.set(func() { p.blocked = true }) }

// Unblock ends Block.
func (p *Proxy) Unblock() { p.set(func() { p.blocked = false }) }

// Delay delays the bytes that arrive from now on by d, in both directions. It adds latency and
// keeps the order. It does not limit the rate while at most some megabytes are in transit.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Limit limits each direction of each connection to a number of bytes per second, from now on. Zero
// means no limit. A faster sender must wait, as on a slow network.
func (p *Proxy) Limit(bytesPerSecond int) { p.set(func() { p.rate = bytesPerSecond }) }

// Stall stops all bytes and keeps every link open, like a network that loses each packet. Each side
// detects it only with its own keep-alive.
func (p *Proxy) Stall() {
	p.set(func() {
		if p.flowing() {
			p.flow = make(chan struct{})
		}
	})
}

// Resume ends Stall and delivers the delayed bytes.
func (p *Proxy) Resume() {
	p.set(func() {
		if !p.flowing() {
			close(p.flow)
		}
	})
}

// Tap calls fn with the bytes that arrive from now on, in both directions, before they are
// forwarded: the bytes that an eavesdropper could read. Calls of fn do not overlap. fn must not
// keep or change the bytes.
func (p *Proxy) Tap(fn func(data []byte)) { p.set(func() { p.tap = fn }) }

// flowing reports whether Stall is off. The caller holds mu.
func (p *Proxy) flowing() bool {
	select {
	case <-p.flow:
		return true
	default:
		return false
	}
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Proxy) close() {
	p.set(func() { p.closed = true })
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// accept accepts connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed, or out of files: then the test's connections fail
		}
		client := conn.(*net.TCPConn)
		p.mu.Lock()
		blocked, target := p.blocked, p.targets[0]
		p.targets = append(p.targets[1:], target)
		p.mu.Unlock()
		if blocked {
			reset(client)
			continue
		}
		p.running.Go(func() { p.serve(client, target) })
	}
}

// serve forwards one connection until both directions have ended.
func (p *Proxy) serve(client *net.TCPConn, target string) {
	conn, err := net.DialTimeout("tcp", target, dialLimit)
	if err != nil {
		reset(client)
		return
	}
	l := newLink(p, client, conn.(*net.TCPConn))
	p.mu.Lock()
	refused := p.closed || p.blocked // since the connection was accepted
	if !refused {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if refused {
		l.close()
		return
	}
	l.forward()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// reset closes conn so that the peer receives an error, not the end of a stream.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
