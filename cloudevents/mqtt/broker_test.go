// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"testing"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embedded is a mochi broker in the test's process.
type embedded struct {
	server *mochi.Server
	addr   string
	stop   func() // may be called more than once
}

// embeddedOptions configures it.
type embeddedOptions struct {
	tls           *tls.Config
	maxPacketSize uint32
	users         map[string]string // nil: anybody
	denied        map[string]bool   // filters and topics that are refused
}

func (e embedded) url() string { return "mqtt://" + e.addr }

// startEmbedded runs a broker until the end of the test.
func startEmbedded(t testing.TB, o embeddedOptions) embedded {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if o.tls != nil {
		listener = tls.NewListener(listener, o.tls)
	}
	server, err := newEmbedded(listener, o)
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { _ = server.Close() })
	t.Cleanup(stop)
	return embedded{server: server, addr: addr, stop: stop}
}

func newEmbedded(listener net.Listener, o embeddedOptions) (*mochi.Server, error) {
	capabilities := mochi.NewDefaultServerCapabilities()
	// Beyond these it drops messages although their publisher got a success.
	capabilities.MaximumInflight = 65535
	capabilities.MaximumClientWritesPending = 65535
	capabilities.MaximumPacketSize = o.maxPacketSize
	server := mochi.New(&mochi.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(&hook{options: o}, nil); err != nil {
		return nil, err
	}
	if err := server.AddListener(listeners.NewNet("test", listener)); err != nil {
		return nil, err
	}
	return server, server.Serve()
}

// hook decides who may do what, and turns mochi's flow control off. That counts wrong: it keeps the packet
// identifiers of both directions in one map, so a client that publishes and receives loses slots of its
// window until none is left; it sends what waited in any order; and it takes a read lock within the same
// read lock, which blocks for good when somebody wants to write in between.
type hook struct {
	mochi.HookBase
	options embeddedOptions
}

func (h *hook) ID() string { return "test" }

func (h *hook) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck || b == mochi.OnPacketRead
}

func (h *hook) OnPacketRead(_ *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Type == packets.Connect {
		p.Properties.ReceiveMaximum = 0 // to mochi: none
	}
	return p, nil
}

func (h *hook) OnConnectAuthenticate(_ *mochi.Client, p packets.Packet) bool {
	password, known := h.options.users[string(p.Connect.Username)]
	return h.options.users == nil || known && password == string(p.Connect.Password)
}

func (h *hook) OnACLCheck(_ *mochi.Client, topic string, _ bool) bool {
	return !h.options.denied[topic]
}
