// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
)

// TestConnectTimesOutDuringTCPHandshake checks the time limits of Connect if the host does not
// answer the TCP handshake. Here the connection queue of the host is full.
func TestConnectTimesOutDuringTCPHandshake(t *testing.T) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for full := false; !full; {
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			full = true
			continue
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	transport := newTransport(t, mqtt.Options{BrokerURL: "mqtt://" + addr, ConnectTimeout: 200 * time.Millisecond})
	_, err = transport.Connect(t.Context(), connectOptions(t, nil))
	wantError(t, err, "connect to mqtt://"+addr, "waited 200ms for the TCP connection")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want context.DeadlineExceeded", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	transport = newTransport(t, mqtt.Options{BrokerURL: "mqtt://" + addr, ConnectTimeout: time.Hour})
	if _, err := transport.Connect(ctx, connectOptions(t, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}
