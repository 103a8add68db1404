// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// send sends publications and acknowledgements.
func (c *conn) send() error {
	for {
		select {
		case <-c.sendable:
		case <-c.life.Done():
			return nil
		}
		frame := c.nextFrame()
		if frame == nil {
			continue
		}
		if err := c.stream.SendMsg(frame); err != nil {
			return nil // receive gets the reason
		}
	}
}

// nextFrame returns the next frame to send, or nil if there is nothing to send.
func (c *conn) nextFrame() *grpcwire.ClientFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, bytes := 0, 0
	for n < len(c.outbox) && n < frameMessages && (n == 0 || bytes+c.outbox[n].Cost() <= frameBytes) {
		bytes += c.outbox[n].Cost()
		n++
	}
	frame := &grpcwire.ClientFrame{Messages: c.outbox[:n:n]}
	if c.outbox = c.outbox[n:]; len(c.outbox) == 0 {
		c.outbox = nil
	} else {
		c.sendable.Set()
	}
	if c.handled > c.acked {
		c.acked, frame.Acknowledged = c.handled, c.handled
	}
	if n == 0 && frame.Acknowledged == 0 {
		return nil
	}
	return frame
}

// receive reads the frames of the server. It never waits for Receive.
func (c *conn) receive() error {
	for {
		var frame grpcwire.ServerFrame
		if err := c.stream.RecvMsg(&frame); err != nil {
			return fmt.Errorf("connection to %s ended: %w", c.address, err)
		}
		if err := c.accept(&frame); err != nil {
			return fmt.Errorf("connection to %s ended: the server does not keep to the protocol: %w", c.address, err)
		}
		if err := c.settle(&frame); err != nil {
			return fmt.Errorf("connection to %s ended: the server does not keep to the protocol: %w", c.address, err)
		}
	}
}

// accept queues deliveries for handle.
func (c *conn) accept(frame *grpcwire.ServerFrame) error {
	if len(frame.Messages) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range frame.Messages {
		if c.waiting > 0 && c.waiting+m.Cost() > receiveWindow {
			return fmt.Errorf("a delivery exceeds the window of %d bytes", receiveWindow)
		}
		c.waiting += m.Cost()
	}
	if !c.ended {
		c.inbox = append(c.inbox, frame.Messages...)
	}
	c.receivable.Set()
	return nil
}

// settle calls done for the answered publications of a frame.
func (c *conn) settle(frame *grpcwire.ServerFrame) error {
	if frame.Acknowledged == 0 && len(frame.Refused) == 0 {
		return nil
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil
	}
	most := c.answered + uint64(len(c.pending))
	for _, r := range frame.Refused {
		if r.Number <= c.answered || r.Number > most {
			c.mu.Unlock()
			return fmt.Errorf("it refused publication %d, which is not in flight", r.Number)
		}
		c.refused[r.Number] = r
	}
	first := c.answered + 1
	n := max(frame.Acknowledged, c.answered)
	if n > most {
		c.mu.Unlock()
		return fmt.Errorf("it answered %d publications, %d were sent", n, most)
	}
	settled := c.pending[:n-c.answered]
	if c.pending = c.pending[n-c.answered:]; len(c.pending) == 0 {
		c.pending = nil
	}
	errs := make(map[uint64]error, len(frame.Refused))
	for i, p := range settled {
		c.bytes -= p.message.Cost()
		if r, ok := c.refused[first+uint64(i)]; ok { //nolint:gosec // it is not negative
			delete(c.refused, r.Number)
			errs[r.Number] = refusal(p.message, c.limit, status.Error(codes.Code(r.Code), r.Reason))
		}
	}
	c.answered = n
	c.room.Wake()
	c.mu.Unlock()
	for i, p := range settled {
		p.done(errs[first+uint64(i)]) //nolint:gosec // it is not negative
		settled[i] = publication{}
	}
	return nil
}

// handle passes deliveries to the callbacks.
func (c *conn) handle() error {
	var batch []grpcwire.Message
	var costs []int
	last, unacknowledged := time.Now(), 0
	for {
		select {
		case <-c.life.Done():
			return nil
		case <-c.receivable:
		}
		for batch, costs = c.take(batch[:0], costs[:0]); len(batch) > 0; batch, costs = c.take(batch[:0], costs[:0]) {
			done := 0
			err := handle(c.life, &c.options, batch, func(n int) {
				bytes := 0
				for _, cost := range costs[done : done+n] {
					bytes += cost
				}
				done += n
				unacknowledged += bytes
				now := done == len(costs) || unacknowledged > receiveWindow/4 || time.Since(last) > ackInterval
				if now {
					last, unacknowledged = time.Now(), 0
				}
				c.acknowledge(n, bytes, now)
			})
			if err != nil || c.life.Err() != nil {
				return err
			}
		}
	}
}

// take moves deliveries from the inbox to buf, with their costs.
func (c *conn) take(buf []grpcwire.Message, costs []int) ([]grpcwire.Message, []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.inbox), mostUncommitted)
	buf = append(buf, c.inbox[:n]...)
	clear(c.inbox[:n])
	if c.inbox = c.inbox[n:]; len(c.inbox) == 0 {
		c.inbox = nil
	}
	for _, m := range buf {
		costs = append(costs, m.Cost())
	}
	return buf, costs
}

// acknowledge records handled deliveries. It wakes send if now is true.
func (c *conn) acknowledge(n, bytes int, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled += uint64(n) //nolint:gosec // it is not negative
	c.waiting -= bytes
	if now {
		c.sendable.Set()
	}
}
