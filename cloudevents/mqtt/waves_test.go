// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/admission"
)

// TestClientsConnectInWaves checks that a process does not open more connections than a restarted
// broker accepts at a time, that all clients connect in the end, and that other brokers do not
// wait.
func TestClientsConnectInWaves(t *testing.T) {
	const clients = 3*admission.Max + 1
	var arrived atomic.Int64
	answer := make(chan struct{})
	addr := fake(t, func(conn net.Conn) {
		arrived.Add(1)
		<-answer
		silentAfterConnect(conn)
	})
	var running errgroup.Group
	for range clients {
		transport := newTransport(t, mqtt.Options{BrokerURL: "mqtt://" + addr})
		running.Go(func() error {
			conn, err := transport.Connect(t.Context(), connectOptions(t, nil))
			if err != nil {
				return err
			}
			return conn.Close()
		})
	}
	waitFor(t, "the first wave", func() bool { return arrived.Load() == admission.Max })

	connect(t, mqtt.Options{BrokerURL: "mqtt://" + fake(t, silentAfterConnect)})

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newTransport(t, mqtt.Options{BrokerURL: "mqtt://" + addr}).Connect(ctx, connectOptions(t, nil, "topic"))
	wantError(t, err, "gave up waiting for other clients of this process to connect")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v, want context.Canceled", err)
	}

	if got := arrived.Load(); got != admission.Max {
		t.Errorf("%d clients connect at a time, want %d", got, admission.Max)
	}
	close(answer)
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	if got := arrived.Load(); got != clients {
		t.Errorf("%d of %d clients connected", got, clients)
	}
	if got := admission.Servers(); got != 0 {
		t.Errorf("%d brokers are kept after all clients have connected, want 0", got)
	}
}
