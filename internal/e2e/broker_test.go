// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// connect opens an MQTT session through the proxy; lost is closed when it breaks.
func connect(t *testing.T, addr string) (lost <-chan struct{}, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: t.Name(), CleanStart: true, KeepAlive: 30}); err != nil {
		return nil, err
	}
	return client.Done(), nil
}

func ended(t *testing.T, session <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-session:
	case <-time.After(10 * time.Second):
		t.Fatalf("the session survived: %s", why)
	}
}

// TestBrokerTrouble checks that the harness can simulate each kind of failure that the end-to-end
// tests need, on the broker that they use.
func TestBrokerTrouble(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	proxy := tcpproxy.Start(t, broker.Addr())

	session, err := connect(t, proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Block()
	proxy.Cut()
	ended(t, session, "the network was cut")
	if _, err := connect(t, proxy.Addr()); err == nil {
		t.Fatal("a session began through a blocked network")
	}
	proxy.Unblock()

	session, err = connect(t, proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	broker.Kill()
	ended(t, session, "the broker was killed")
	broker.Restart()
	if _, err := connect(t, proxy.Addr()); err != nil {
		t.Fatalf("after the broker has come back: %v", err)
	}
}
