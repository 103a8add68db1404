// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/transporttest"
)

// harness has all abilities except sessions, which the bus does not support.
type harness struct{ bus *memory.Bus }

func (h harness) Transport(*testing.T) cloudevents.Transport { return h.bus.Transport() }

func (h harness) Cut(*testing.T) {
	h.bus.Disconnect()
	h.bus.Reconnect()
}

func (h harness) Stall(*testing.T) func() {
	h.bus.Stall()
	return h.bus.Resume
}

func (h harness) Limited(_ *testing.T, limit int) cloudevents.Transport {
	bus := memory.New()
	bus.SetMaxPacketSize(limit)
	return bus.Transport()
}

// PublishRaw delivers an invalid event by way of Intercept, because Publish would reject it. It
// ignores the payload.
func (h harness) PublishRaw(t *testing.T, topic string, _ []byte) {
	h.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		deliver(cloudevents.Message{Topic: m.Topic})
	})
	defer h.bus.Intercept(nil)
	transport := h.bus.Transport()
	conn, err := transport.Connect(t.Context(), cloudevents.ConnectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan error, 1)
	e := ce.New()
	e.SetID("raw")
	e.SetSource("test")
	e.SetType("test")
	if err := conn.Publish(t.Context(), cloudevents.Message{Topic: topic, Event: &e},
		func(err error) { acknowledged <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-acknowledged; err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestConformance(t *testing.T) {
	transporttest.Run(t, harness{memory.New()})
}
