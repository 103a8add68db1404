// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
)

// startEmbedded runs a mochi broker until the end of the test and returns its address.
func startEmbedded(tb testing.TB) string {
	capabilities := mochi.NewDefaultServerCapabilities()
	// Above these limits, mochi drops messages although their publisher received a success.
	capabilities.MaximumInflight, capabilities.MaximumClientWritesPending = 65535, 65535
	server := mochi.New(&mochi.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(new(allowAll), nil); err != nil {
		tb.Fatal(err)
	}
	listener := listeners.NewTCP(listeners.Config{ID: "test", Address: "127.0.0.1:0"})
	if err := server.AddListener(listener); err != nil {
		tb.Fatal(err)
	}
	if err := server.Serve(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Close may block forever while mochi is about to detect the end of a connection.
		deadline := time.Now().Add(5 * time.Second)
		for atomic.LoadInt64(&server.Info.ClientsConnected) > 0 && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		_ = server.Close()
	})
	return listener.Address()
}

// allowAll allows all clients every operation. It also hides the Receive Maximum of clients from
// mochi, because mochi counts unacknowledged messages wrong and may hang.
type allowAll struct{ mochi.HookBase }

func (*allowAll) ID() string { return "test" }

func (*allowAll) Provides(question byte) bool {
	return question == mochi.OnConnectAuthenticate || question == mochi.OnACLCheck || question == mochi.OnPacketRead
}

func (*allowAll) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }
func (*allowAll) OnACLCheck(*mochi.Client, string, bool) bool              { return true }

func (*allowAll) OnPacketRead(_ *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Type == packets.Connect {
		p.Properties.ReceiveMaximum = 0 // mochi treats 0 as no limit
	}
	return p, nil
}
