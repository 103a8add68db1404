// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embedded is a mochi broker that runs in the test process.
type embedded struct {
	server *mochi.Server
	addr   string
	stop   func() // may be called more than once
}

// embeddedOptions configures an embedded broker.
type embeddedOptions struct {
	tls           *tls.Config
	maxPacketSize uint32
	users         map[string]string // nil accepts all users
	denied        map[string]bool   // filters and topics that the broker refuses
	full          *atomic.Bool      // while it is true, published messages exceed a quota
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
	t.Cleanup(func() {
		awaitNoClients(server)
		stop()
	})
	return embedded{server: server, addr: addr, stop: stop}
}

func newEmbedded(listener net.Listener, o embeddedOptions) (*mochi.Server, error) {
	capabilities := mochi.NewDefaultServerCapabilities()
	// Beyond these limits mochi drops messages although it acknowledges them.
	capabilities.MaximumInflight = 65535
	capabilities.MaximumClientWritesPending = 65535
	capabilities.MaximumPacketSize = o.maxPacketSize
	server := mochi.New(&mochi.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler)})
	if err := server.AddHook(&hook{options: o, server: server}, nil); err != nil {
		return nil, err
	}
	if err := server.AddListener(listeners.NewNet("test", listener)); err != nil {
		return nil, err
	}
	if err := server.Serve(); err != nil {
		return nil, err
	}
	return server, nil
}

// awaitNoClients waits up to 5 s until the broker has seen the end of all connections. Before that,
// Close of mochi may deadlock: it takes a read lock again that it already has.
func awaitNoClients(server *mochi.Server) {
	deadline := time.Now().Add(5 * time.Second)
	for atomic.LoadInt64(&server.Info.ClientsConnected) > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
}

// hook implements the authentication, the access rules, and the quota of the broker.
type hook struct {
	mochi.HookBase
	options embeddedOptions
	server  *mochi.Server
}

func (h *hook) ID() string { return "test" }

func (h *hook) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck || b == mochi.OnConnect || b == mochi.OnPublish
}

// OnConnect ends an older connection with the same client ID and waits for its end. mochi removes
// subscriptions by client ID, and would otherwise also remove those of the new connection.
func (h *hook) OnConnect(cl *mochi.Client, _ packets.Packet) error {
	old, ok := h.server.Clients.Get(cl.ID)
	if !ok || old.Properties.Props.SessionExpiryInterval > 0 {
		return nil
	}
	if !old.Closed() {
		_ = h.server.DisconnectClient(old, packets.ErrSessionTakenOver)
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if still, ok := h.server.Clients.Get(cl.ID); !ok || still != old {
			break
		}
	}
	return nil
}

func (h *hook) OnConnectAuthenticate(_ *mochi.Client, p packets.Packet) bool {
	password, known := h.options.users[string(p.Connect.Username)]
	return h.options.users == nil || known && password == string(p.Connect.Password)
}

func (h *hook) OnPublish(_ *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if full := h.options.full; full != nil && full.Load() {
		return p, packets.ErrQuotaExceeded
	}
	return p, nil
}

func (h *hook) OnACLCheck(_ *mochi.Client, topic string, _ bool) bool {
	return !h.options.denied[topic]
}
