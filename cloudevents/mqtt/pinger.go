// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	paholog "github.com/eclipse/paho.golang/paho/log"
)

// pinger sends PINGREQ after three quarters of an interval in which nothing was received or nothing
// sent. It ends the connection if no byte arrives within the same time after that. paho's own pinger
// needs two intervals instead of one and a half, and counts whole packets instead of bytes.
type pinger struct{ wire *wire }

var _ paho.Pinger = (*pinger)(nil)

// Run watches until ctx ends. keepAlive is in seconds; the broker may have changed it.
func (p *pinger) Run(ctx context.Context, conn net.Conn, keepAlive uint16) error {
	if keepAlive == 0 {
		return nil // the broker disabled keep alive
	}
	interval := time.Duration(keepAlive) * time.Second
	timer := time.NewTimer(interval / 2)
	defer timer.Stop()
	var pinged time.Duration // when the last PINGREQ was sent; zero: none
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		lastIn, lastOut := p.wire.lastRead(), time.Duration(p.wire.lastOut.Load())
		now := p.wire.now()
		next, ping, dead := check(now, lastIn, lastOut, pinged, interval)
		if dead {
			err := fmt.Errorf("the broker was silent for %v: the link is dead", (now - lastIn).Round(time.Millisecond))
			p.wire.fail(err) // first: otherwise the read that it ends might become the reason
			return err
		}
		if ping {
			pinged = now
			p.wire.trim()
			// This never blocks, see wire.
			if _, err := packets.NewControlPacket(packets.PINGREQ).WriteTo(conn); err != nil {
				return nil // wire has recorded the reason
			}
		}
		timer.Reset(next)
	}
}

// check returns the time until the next check, whether to send PINGREQ now, and whether the link is
// dead. All times are of one clock.
func check(now, lastIn, lastOut, pinged, interval time.Duration) (next time.Duration, ping, dead bool) {
	patience := interval * 3 / 4
	if pinged > 0 && lastIn < pinged {
		deadline := pinged + patience
		return deadline - now, false, now >= deadline
	}
	if due := min(lastIn, lastOut) + patience; now < due {
		return due - now, false, false
	}
	return patience, true, false
}

// PacketSent does nothing: wire records writes.
func (p *pinger) PacketSent() {}

// PacketReceived does nothing: wire records reads.
func (p *pinger) PacketReceived() {}

// PingResp does nothing: any received byte counts.
func (p *pinger) PingResp() {}

// SetDebug does nothing.
func (p *pinger) SetDebug(paholog.Logger) {}
