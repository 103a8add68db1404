// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tcpproxy

import (
	"net"
	"sync"
	"time"
)

// At most queueLength pieces of pieceSize bytes are in transit in one direction.
const (
	pieceSize   = 32 << 10
	queueLength = 256
)

// link is one forwarded connection.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn

	closeOnce sync.Once
	closed    chan struct{}
}

// piece is data in transit, and the earliest time of its delivery.
type piece struct {
	data []byte
	due  time.Time
}

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	return &link{proxy: p, client: client, server: server, closed: make(chan struct{})}
}

// close closes both connections and ends all waits. It is idempotent.
func (l *link) close() {
	l.closeOnce.Do(func() {
		close(l.closed)
		reset(l.client)
		reset(l.server)
	})
}

// forward copies bytes in both directions. It returns when all goroutines of the link have ended.
func (l *link) forward() {
	var directions sync.WaitGroup
	for _, way := range []struct{ from, to *net.TCPConn }{{l.client, l.server}, {l.server, l.client}} {
		queue := make(chan piece, queueLength)
		directions.Go(func() { l.read(way.from, queue) })
		directions.Go(func() { l.write(way.to, queue) })
	}
	directions.Wait()
	l.closeOnce.Do(func() {
		// Both sides have ended their streams: close without a reset.
		close(l.closed)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// read adds a due time to the bytes that arrive. It and write are two goroutines, because a delay
// must not block the next piece.
func (l *link) read(from *net.TCPConn, queue chan<- piece) {
	defer close(queue)
	var free time.Time // when the network can accept the next piece
	for {
		buf := make([]byte, pieceSize)
		n, err := from.Read(buf)
		if n > 0 {
			l.proxy.mu.Lock()
			free = later(free, time.Now())
			if l.proxy.rate > 0 {
				free = free.Add(time.Duration(n) * time.Second / time.Duration(l.proxy.rate))
			}
			due := free.Add(l.proxy.delay)
			if l.proxy.tap != nil {
				l.proxy.tap(buf[:n])
			}
			l.proxy.mu.Unlock()
			select {
			case queue <- piece{data: buf[:n], due: due}:
			case <-l.closed:
				return
			}
			if time.Until(free) > 0 && !l.wait(free) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// write delivers the pieces in order, each when it is due. It then forwards the end of the stream,
// so half-closed connections work through the proxy.
func (l *link) write(to *net.TCPConn, queue <-chan piece) {
	for p := range queue {
		if !l.wait(p.due) {
			return
		}
		if _, err := to.Write(p.data); err != nil {
			l.close()
			return
		}
	}
	if !l.wait(time.Time{}) {
		return
	}
	_ = to.CloseWrite()
}

// wait returns true when due has passed and the proxy is not stalled, or false if the link is
// closed before.
func (l *link) wait(due time.Time) bool {
	if d := time.Until(due); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.closed:
			return false
		}
	}
	l.proxy.mu.Lock()
	flow := l.proxy.flow
	l.proxy.mu.Unlock()
	select {
	case <-l.closed:
		return false
	case <-flow:
		return true
	}
}
