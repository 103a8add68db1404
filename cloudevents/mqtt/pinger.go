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

// pinger sends PINGREQ after three quarters of an interval in which nothing was received or nothing sent, and ends
// the connection when nothing at all comes within as long after that. So the broker hears of the client within each
// interval, as it must, and a dead link is found after one and a half; paho's own pinger takes two, and
// counts whole packets instead of bytes.
type pinger struct{ wire *wire }

var _ paho.Pinger = (*pinger)(nil)

// Run watches until ctx ends. keepAlive is in seconds; the broker may have changed it.
func (p *pinger) Run(ctx context.Context, conn net.Conn, keepAlive uint16) error {
	if keepAlive == 0 {
		return nil // the broker wants none
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
			p.wire.fail(err) // first, or the read that ends because of it might be taken for the reason
			return err
		}
		if ping {
			pinged = now
			p.wire.trim()
			// Never waits, see wire.
			if _, err := packets.NewControlPacket(packets.PINGREQ).WriteTo(conn); err != nil {
				return nil // whoever broke the wire has reported it
			}
		}
		timer.Reset(next)
	}
}

// check decides what to do now, and when to look again. All times are on one clock.
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

// PacketSent does nothing: wire knows.
func (p *pinger) PacketSent() {}

// PacketReceived does nothing: wire knows.
func (p *pinger) PacketReceived() {}

// PingResp does nothing: any byte received is as good.
func (p *pinger) PingResp() {}

// SetDebug does nothing.
func (p *pinger) SetDebug(paholog.Logger) {}
