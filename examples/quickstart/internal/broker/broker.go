// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker runs an MQTT broker inside the process, so that the quickstart needs none. It is for trying
// things out: it listens on this machine only, lets everybody in and keeps nothing.
package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// pending is how many messages may wait for one client. Beyond its limits mochi drops messages although the
// publisher was told that they were accepted, so this is far above what a quickstart sends at once; the price is
// half a megabyte for each client.
const pending = math.MaxUint16

// Broker is the broker that a run uses.
type Broker struct {
	url    string
	server *mochi.Server // nil if it runs elsewhere
}

// Open returns the broker at a URL, which is not contacted, or starts one if the URL is empty.
func Open(address string) (*Broker, error) {
	if address == "" {
		return Start()
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return nil, errors.New("the broker's URL must not hold a user or password: it is shown") // nor is it shown here
	}
	return &Broker{url: address}, nil
}

// Start starts a broker on a free port of 127.0.0.1.
func Start() (*Broker, error) {
	accept, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	capabilities := mochi.NewDefaultServerCapabilities()
	capabilities.MaximumClientWritesPending = pending
	capabilities.MaximumInflight = pending
	capabilities.ReceiveMaximum = pending
	server := mochi.New(&mochi.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler)})
	if err = server.AddHook(new(hook), nil); err == nil {
		if err = server.AddListener(newListener(accept)); err == nil {
			err = server.Serve() // returns at once; the listener has goroutines of its own
		}
	}
	if err != nil {
		_ = accept.Close()
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	return &Broker{url: "mqtt://" + accept.Addr().String(), server: server}, nil
}

// URL is where clients reach the broker.
func (b *Broker) URL() string { return b.url }

// String is the URL, and whether the broker is an embedded one.
func (b *Broker) String() string {
	if b.server == nil {
		return b.url
	}
	return b.url + " (embedded in this process)"
}

// Close disconnects all clients and stops the broker, unless it runs elsewhere. It may be called once.
func (b *Broker) Close() {
	if b.server != nil {
		_ = b.server.Close()
	}
}

// hook lets every client connect, publish and subscribe. (mochi has such a hook, too, in a package that brings a
// YAML parser along.) And it hides from mochi how many unacknowledged messages a client wants at most: mochi
// counts them wrong, reorders what it has held back, and can block for good while it looks for the next one.
type hook struct{ mochi.HookBase }

// ID names the hook in mochi's log.
func (*hook) ID() string { return "quickstart" }

// Provides says what the hook wants to be asked.
func (*hook) Provides(question byte) bool {
	return question == mochi.OnConnectAuthenticate || question == mochi.OnACLCheck || question == mochi.OnPacketRead
}

// OnConnectAuthenticate says yes.
func (*hook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck says yes.
func (*hook) OnACLCheck(*mochi.Client, string, bool) bool { return true }

// OnPacketRead takes the Receive Maximum out of a CONNECT packet.
func (*hook) OnPacketRead(_ *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Type == packets.Connect {
		p.Properties.ReceiveMaximum = 0 // mochi reads it as: no limit
	}
	return p, nil
}
