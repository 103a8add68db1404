// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/eclipse/paho.golang/packets"

	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

// The following identifiers export pure functions to tests.

const StuckAfter = stuckAfter

var CheckLink = check

func Decode(p *packets.Publish) (*ce.Event, error) { return decode(p) }

func ReadThrough(source func([]byte) (int, error)) func([]byte) (int, error) {
	r := new(reader)
	r.init(source)
	return r.read
}

// Settings returns the settings that a transport derives from its options.
func (t *Transport) Settings() any { return &t.settings }

// LoadCertificate reads CertFile and KeyFile, as a TLS handshake does.
func (o Options) LoadCertificate() error {
	_, err := tlsfiles.Pair(o.CertFile, o.KeyFile)
	return err
}

// Target returns the URL of the WebSocket handshake.
func (t *Transport) Target() string { return t.settings.endpoint.target() }
