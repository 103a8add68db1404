// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/admission"
)

// TestClientsConnectInWaves checks that a process does not begin more connections to a server than
// it can answer.
func TestClientsConnectInWaves(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var arrived atomic.Int64
	var running sync.WaitGroup
	running.Go(func() { // a server that accepts and does not answer
		var conns []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
			arrived.Add(1)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	connect := func(ctx context.Context) error {
		transport := newTransport(t, grpc.Options{Address: listener.Addr().String(), Insecure: true})
		_, err := transport.Connect(ctx, cloudevents.ConnectOptions{
			Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
		})
		return err
	}
	for range admission.Max {
		running.Go(func() {
			if err := connect(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Connect: %v, want context.Canceled", err)
			}
		})
	}
	waitFor(t, "the first wave", func() bool { return arrived.Load() == admission.Max })
	ended, end := context.WithCancel(t.Context())
	end()
	if err := connect(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Connect: %v, want context.Canceled", err)
	}
	if got := arrived.Load(); got != admission.Max {
		t.Errorf("%d clients connect at a time, want %d", got, admission.Max)
	}
	cancel()
	_ = listener.Close()
	running.Wait()
	if got := admission.Servers(); got != 0 {
		t.Errorf("%d servers are kept after all clients have ended, want 0", got)
	}
}
