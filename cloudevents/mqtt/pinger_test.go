// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// TestHalfOpenLink checks that a silent broker is detected after 1.5 times KeepAlive.
func TestHalfOpenLink(t *testing.T) {
	t.Parallel()
	broker := startEmbedded(t, embeddedOptions{})
	proxy := tcpproxy.Start(t, broker.addr)
	conn := connect(t, mqtt.Options{BrokerURL: "mqtt://" + proxy.Addr(), KeepAlive: time.Second})
	start := time.Now()
	proxy.Stall()
	defer proxy.Resume()
	wantError(t, ended(t, conn), "connection to mqtt://", "the broker was silent for", "the link is dead")
	if took := time.Since(start); took > 3*1500*time.Millisecond {
		t.Errorf("it took %v to notice, want about 1.5s", took)
	}
}

// TestPingsKeepIdleLink checks that the client pings on an idle link. A broker closes connections
// that are silent for 1.5 times KeepAlive.
func TestPingsKeepIdleLink(t *testing.T) {
	t.Parallel()
	broker := startEmbedded(t, embeddedOptions{})
	conn := connect(t, mqtt.Options{BrokerURL: broker.url(), KeepAlive: 2 * time.Second})
	received := atomic.LoadInt64(&broker.server.Info.PacketsReceived)
	timeout := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for atomic.LoadInt64(&broker.server.Info.PacketsReceived) < received+2 {
		select {
		case <-conn.Done():
			t.Fatalf("the connection ended: %v", conn.Err())
		case <-timeout:
			t.Fatal("no pings")
		case <-tick.C:
		}
	}
}

// TestCheckLink checks when the client pings and when it gives up, with a KeepAlive of 8 s.
func TestCheckLink(t *testing.T) {
	const s = time.Second
	table := []struct {
		name                         string
		now, lastIn, lastOut, pinged time.Duration
		next                         time.Duration
		ping, dead                   bool
	}{
		{"just after the last byte", 3 * s, 3 * s, 3 * s, 0, 6 * s, false, false},
		{"both directions were busy", 12 * s, 11 * s, 10 * s, 0, 4 * s, false, false},
		{"nothing sent", 12 * s, 11 * s, 2 * s, 0, 6 * s, true, false},
		{"nothing received", 12 * s, 2 * s, 11 * s, 0, 6 * s, true, false},
		{"waiting for the answer", 12 * s, 2 * s, 10 * s, 10 * s, 4 * s, false, false},
		{"no answer", 16 * s, 2 * s, 10 * s, 10 * s, 0, false, true},
		{"answered", 15 * s, 11 * s, 10 * s, 10 * s, 1 * s, false, false},
		{"any byte is an answer, even if we send all the time", 15 * s, 10 * s, 15 * s, 10 * s, 1 * s, false, false},
	}
	for _, row := range table {
		next, ping, dead := mqtt.CheckLink(row.now, row.lastIn, row.lastOut, row.pinged, 8*s)
		if next != row.next || ping != row.ping || dead != row.dead {
			t.Errorf("%s: got %v, %v, %v, want %v, %v, %v", row.name, next, ping, dead, row.next, row.ping, row.dead)
		}
	}
}
