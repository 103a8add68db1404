// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package tcpproxy puts a bad network between a client and a server in a test.
//
//	proxy := tcpproxy.Start(t, broker.Addr())
//	transport, err := mqtt.New(mqtt.Options{BrokerURL: "mqtt://" + proxy.Addr()})
//	…
//	proxy.Block() // nobody gets in,
//	proxy.Cut()   // and who is in is thrown out
//
// The proxy forwards bytes and knows no protocol. It works on real sockets and
// real time, so it cannot be used inside a testing/synctest bubble.
package tcpproxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// dialLimit bounds the connection to the target; on a loopback address only a
// target with a full backlog takes any time at all.
const dialLimit = 5 * time.Second

// Proxy listens on a port of its own and forwards to one target, or to several by turns. Its methods may
// be called concurrently. It ends, with all its links, when its test does.
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

// Start listens on a free port of 127.0.0.1 and forwards each connection to
// a target (host:port), which need not listen yet. Several targets take connections by turns.
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

// Addr is the address, host:port, that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Links is the number of connections that are being forwarded.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Forward connects new clients to another target. A test that restarts a server needs it, because another program may have
// taken the server's port meanwhile.
func (p *Proxy) Forward(target string) { p.set(func() { p.targets = []string{target} }) }

// Cut closes every link at once, on both sides, with whatever is on the way.
// New connections are forwarded as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Block turns new connections away: each is accepted and reset at once, because a
// listener that was closed might not get its port back. Links live on.
func (p *Proxy) Block() { p.set(func() { p.blocked = true }) }

// Unblock ends Block.
func (p *Proxy) Unblock() { p.set(func() { p.blocked = false }) }

// Delay holds bytes that arrive from now on back for d, in both directions. It
// adds latency and keeps the order; it does not limit the rate, as long as no more
// than some megabytes are on the way.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Limit lets at most so many bytes a second of each connection pass in each direction, from now on. Zero is no limit. A
// sender that is faster has to wait, as on a slow network.
func (p *Proxy) Limit(bytesPerSecond int) { p.set(func() { p.rate = bytesPerSecond }) }

// Stall stops all bytes and keeps every link open, as a network does that loses
// each packet: neither side learns of it, except by its own keep-alive.
func (p *Proxy) Stall() {
	p.set(func() {
		if p.flowing() {
			p.flow = make(chan struct{})
		}
	})
}

// Resume ends Stall. What was held back is delivered.
func (p *Proxy) Resume() {
	p.set(func() {
		if !p.flowing() {
			close(p.flow)
		}
	})
}

// Tap calls fn with what arrives from now on, of both directions, before it is passed on: what anybody on the way could
// read. fn is called one at a time and must not keep or change the bytes.
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

// accept owns the listener until close.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed, or out of files: the test sees its connections fail
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
	refused := p.closed || p.blocked // since it was accepted
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

// reset closes conn so that the peer gets an error, not the end of a stream.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
