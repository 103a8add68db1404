// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package broker runs an MQTT broker inside the process, so the quickstart needs no other broker.
// It is for trials only: it listens on this machine only, accepts every client and stores nothing.
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

// pending is the limit of messages that wait for one client. Beyond its limits, mochi drops
// messages that it has accepted from the publisher. So the limit is far above the number of
// messages in a quickstart. It costs half a megabyte for each client.
const pending = math.MaxUint16

// Broker is the broker of a run.
type Broker struct {
	url    string
	server *mochi.Server // nil for another broker
}

// Open returns the broker at a URL, or starts one if the URL is empty. It does not connect.
func Open(address string) (*Broker, error) {
	if address == "" {
		return Start()
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		// so the error omits it
		return nil, errors.New("the broker's URL must not contain a user or password: it is printed")
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
			err = server.Serve() // returns at once; the listener has its own goroutines
		}
	}
	if err != nil {
		_ = accept.Close()
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	return &Broker{url: "mqtt://" + accept.Addr().String(), server: server}, nil
}

// URL returns the address of the broker.
func (b *Broker) URL() string { return b.url }

// String returns the URL, and whether the broker is embedded.
func (b *Broker) String() string {
	if b.server == nil {
		return b.url
	}
	return b.url + " (embedded in this process)"
}

// Close disconnects all clients and stops an embedded broker. It may be called once.
func (b *Broker) Close() {
	if b.server != nil {
		_ = b.server.Close()
	}
}

// hook allows every client to connect, publish and subscribe. (mochi has such a hook, too, but its
// package also imports a YAML parser.) It also hides the Receive Maximum of clients from mochi:
// mochi miscounts unacknowledged messages, reorders delayed ones, and can block forever while it
// looks for the next one.
type hook struct{ mochi.HookBase }

// ID names the hook in mochi's log.
func (*hook) ID() string { return "quickstart" }

// Provides reports whether the hook implements a callback.
func (*hook) Provides(question byte) bool {
	return question == mochi.OnConnectAuthenticate || question == mochi.OnACLCheck || question == mochi.OnPacketRead
}

// OnConnectAuthenticate accepts every client.
func (*hook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck allows every topic.
func (*hook) OnACLCheck(*mochi.Client, string, bool) bool { return true }

// OnPacketRead removes the Receive Maximum from a CONNECT packet.
func (*hook) OnPacketRead(_ *mochi.Client, p packets.Packet) (packets.Packet, error) {
	if p.FixedHeader.Type == packets.Connect {
		p.Properties.ReceiveMaximum = 0 // mochi reads it as: no limit
	}
	return p, nil
}
