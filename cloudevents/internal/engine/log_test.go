// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// TestConnectionChangesAreLoggedOnce checks that the log has one line for each change and each new reason, not for
// each attempt. A client that is disconnected right after each connection does not fill the log.
func TestConnectionChangesAreLoggedOnce(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		const cannot, lost, connected = "Failed to connect to the broker", "Lost the connection to the broker",
			"Connected to the broker again"
		expect := func(when string, want map[string]int) {
			t.Helper()
			for text, n := range want {
				if got := r.logged(text); got != n {
					t.Errorf("%s: %q is logged %d times, want %d", when, text, got, n)
				}
			}
		}
		r.transport.setRefuse(errTest)
		r.start()
		time.Sleep(time.Hour)
		expect("one reason", map[string]int{cannot: 1, connected: 0})
		r.transport.setRefuse(nil)
		time.Sleep(10 * time.Second)
		expect("connected for the first time", map[string]int{cannot: 1, connected: 1})
		for port := range 5 {
			read := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 40000 + port},
				Addr: &net.TCPAddr{Port: 1883}, Err: errTest}
			r.transport.setRefuse(fmt.Errorf("connect: %w", read))
			r.transport.current().cut(errTest)
			time.Sleep(10 * time.Second)
		}
		expect("one reason with many local ports", map[string]int{cannot: 2, lost: 1})
		r.transport.setRefuse(cloudevents.ErrConnectionLost)
		time.Sleep(10 * time.Second)
		expect("another reason", map[string]int{cannot: 3})
		r.transport.setRefuse(nil)
		time.Sleep(10 * time.Second)
		expect("connected", map[string]int{cannot: 3, connected: 2})
		time.Sleep(time.Minute)
		for range 10 {
			r.transport.current().cut(errTest)
			time.Sleep(time.Second)
		}
		expect("disconnected ten times", map[string]int{connected: 3, lost: 2})
		time.Sleep(time.Minute)
		r.transport.current().cut(errTest)
		time.Sleep(time.Second)
		expect("and after a while", map[string]int{connected: 4, lost: 3})

	})
}
