// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package unfinished

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// frameCost is the memory of a received frame in addition to its data, and leastData the least
	// memory of its data: gRPC's buffers have steps.
	frameCost, leastData = 128, 256
	// prefix is the number of bytes before a message: a flag and the length.
	prefix = 5
)

// Conn is the server's side of a connection.
type Conn struct {
	net.Conn
	limit  *Limit
	client string
	cut    func()
	used   int // guarded by limit.mu
	closed atomic.Bool

	mu      sync.Mutex
	in, out walker
	streams map[uint32]*stream // with an unfinished message
	change  int                // of the bytes of all streams since the last charge
}

// stream is a stream of the client in the middle of a message.
type stream struct {
	head  []byte // the prefix, until it is complete
	left  int    // bytes of the message after the prefix that are missing
	cost  int
	ended bool // by the server, which drops the rest
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.in.walk(p[:n])
	change := c.change
	c.change = 0
	c.mu.Unlock()
	if change != 0 {
		c.charge(change)
	}
	if c.closed.Load() {
		return 0, ErrExceeded
	}
	return n, err
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.walk(p[:n])
	return n, err
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.limit.leave(c)
	return c.Conn.Close()
}

// charge charges the limit, and cuts the connection that exceeds it.
func (c *Conn) charge(n int) {
	if victim := c.limit.charge(c, n); victim != nil {
		c.limit.leave(victim)
		victim.cut()
	}
}

func (c *Conn) payLocked(s *stream, cost int) {
	c.change += cost - s.cost
	s.cost = cost
}

// receivedLocked handles a frame of the client after its header, and again at its end.
func (c *Conn) receivedLocked(f frame, end bool) {
	s := c.streams[f.id]
	switch {
	case !end && f.kind == frameData:
		if s == nil {
			s = &stream{}
			c.streams[f.id] = s
		}
		if !s.ended {
			c.payLocked(s, s.cost+frameCost+max(0, leastData-f.length))
		}
	case end && s != nil && (f.endsStream() || s.left == 0 && len(s.head) == 0 && !s.ended):
		c.payLocked(s, 0)
		delete(c.streams, f.id)
	}
}

// sentLocked handles a frame of the server at its end.
func (c *Conn) sentLocked(f frame, end bool) {
	if s := c.streams[f.id]; end && s != nil && f.endsStream() {
		s.ended = true
		c.payLocked(s, frameCost)
	}
}

// dataLocked handles a part of the data of a stream.
func (c *Conn) dataLocked(id uint32, data []byte) {
	s := c.streams[id]
	if s.ended {
		return
	}
	c.payLocked(s, s.cost+len(data))
	for len(data) > 0 {
		if s.left == 0 {
			n := min(prefix-len(s.head), len(data))
			s.head, data = append(s.head, data[:n]...), data[n:]
			if len(s.head) < prefix {
				return
			}
			s.left = int(binary.BigEndian.Uint32(s.head[1:]))
			s.head = s.head[:0]
		}
		n := min(s.left, len(data))
		s.left, data = s.left-n, data[n:]
		if s.left == 0 {
			c.payLocked(s, frameCost+len(data)) // the rest belongs to another message
		}
	}
}
