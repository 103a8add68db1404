// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestBrokerEndsConnection checks that Err returns the broker's reason.
func TestBrokerEndsConnection(t *testing.T) {
	t.Run("SessionTakenOver", func(t *testing.T) {
		url := startEmbedded(t, embeddedOptions{}).url()
		first := connect(t, mqtt.Options{BrokerURL: url, ClientID: "one"})
		connect(t, mqtt.Options{BrokerURL: url, ClientID: "one"})
		err := ended(t, first)
		wantError(t, err, "session taken over", "another client has connected with the same ClientID")
		var reason *mqtt.ReasonError
		if !errors.As(err, &reason) || reason.Code != 0x8E || reason.Packet != "DISCONNECT" {
			t.Errorf("%v, want a ReasonError", err)
		}
	})
	t.Run("WithoutReason", func(t *testing.T) {
		broker := mosquitto.Start(t, mosquitto.Options{})
		first := connect(t, mqtt.Options{BrokerURL: broker.URL(), ClientID: "one"})
		second := connect(t, mqtt.Options{BrokerURL: broker.URL(), ClientID: "one"})
		// Mosquitto 2.0.11 closes the connection in both cases without a reason.
		wantError(t, ended(t, first), "the broker closed the connection")
		broker.Stop()
		wantError(t, ended(t, second), "the broker closed the connection")
	})
	t.Run("ShuttingDown", func(t *testing.T) {
		broker := startEmbedded(t, embeddedOptions{})
		conn := connect(t, mqtt.Options{BrokerURL: broker.url()})
		broker.stop()
		wantError(t, ended(t, conn), "server shutting down")
	})
	t.Run("Killed", func(t *testing.T) {
		broker := mosquitto.Start(t, mosquitto.Options{})
		conn := connect(t, mqtt.Options{BrokerURL: broker.URL()})
		broker.Kill()
		wantError(t, ended(t, conn), "connection to mqtt://", "ended: ")
	})
}

// TestMalformedPackets checks that bytes which are not MQTT end the connection, and do no other
// harm.
func TestMalformedPackets(t *testing.T) {
	table := map[string][]byte{
		"length of five bytes":        {0x30, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"unknown type":                {0x00, 0x00},
		"PUBLISH without a topic":     {0x32, 0},
		"PUBLISH, topic cut off":      {0x32, 3, 0, 9, 'a'},
		"PUBLISH, unknown property":   {0x32, 8, 0, 1, 't', 0, 1, 2, 0xfe, 0},
		"PUBLISH, properties cut off": {0x32, 6, 0, 1, 't', 0, 1, 0x80},
		"PUBACK without identifier":   {0x40, 0},
		"another CONNACK":             accepted,
		"AUTH with a method":          {0xf0, 2, 0x18, 0},
		"text":                        []byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 20000)),
	}
	for name, packet := range table {
		t.Run(name, func(t *testing.T) {
			addr := fake(t, func(conn net.Conn) {
				saying(packet)(conn)
				_ = conn.(*net.TCPConn).CloseWrite() // ends a truncated packet
			})
			conn := connectWith(t, mqtt.Options{BrokerURL: "mqtt://" + addr}, nil, "topic")
			wantError(t, ended(t, conn), "connection to mqtt://")
		})
	}
}

// TestUnknownAcknowledgementsAreIgnored checks that acknowledgements with unused identifiers are
// ignored.
func TestUnknownAcknowledgementsAreIgnored(t *testing.T) {
	publishPacket := []byte{0x32, 0, 0, 5, 't', 'o', 'p', 'i', 'c', 0, 1, 0}
	payload, err := json.Marshal(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	publishPacket = append(publishPacket, payload...)
	rest := len(publishPacket) - 2
	publishPacket = append([]byte{0x32, byte(rest) | 0x80, byte(rest >> 7)}, publishPacket[2:]...)
	var stray []byte
	for _, id := range [][2]byte{{0, 0}, {0, 1}, {0xff, 0xff}, {0x80, 0}} {
		for _, kind := range []byte{0x40, 0x50, 0x62, 0x70} {
			stray = append(stray, kind, 2, id[0], id[1])
		}
		stray = append(stray, 0x90, 4, id[0], id[1], 0, 1)
	}
	received := make(chan cloudevents.Message, 1)
	conn := connectWith(t, mqtt.Options{BrokerURL: "mqtt://" + fake(t, saying(append(stray, publishPacket...)))}, received,
		"topic")
	select {
	case m := <-received:
		if m.Event.ID() != "1" {
			t.Errorf("received %v", m)
		}
	case <-conn.Done():
		t.Errorf("the connection ended: %v", conn.Err())
	}
}

// TestPublishRefused checks that done receives the broker's reason, and that the connection stays
// open.
func TestPublishRefused(t *testing.T) {
	t.Run("NotAuthorized", func(t *testing.T) {
		broker := startEmbedded(t, embeddedOptions{denied: map[string]bool{"secret": true}})
		conn := connect(t, mqtt.Options{BrokerURL: broker.url()})
		err := publishResult(t, conn, "secret", sampleEvent())
		wantError(t, err, `message on topic "secret": not authorized (PUBACK 0x87)`)
		var reason *mqtt.ReasonError
		if !errors.As(err, &reason) || reason.Code != 0x87 {
			t.Errorf("%v: want a ReasonError", err)
		}
		publish(t, conn, "open", sampleEvent())
	})
	t.Run("TooLargeWithoutAnnouncement", func(t *testing.T) {
		broker := mosquitto.Start(t, mosquitto.Options{MaxMessageSize: 1000})
		conn := connect(t, mqtt.Options{BrokerURL: broker.URL()})
		large := sampleEvent()
		large.SetDataContentType("text/plain")
		large.DataEncoded = []byte(strings.Repeat("x", 2000))
		var tooLarge *cloudevents.TooLargeError
		if err := publishResult(t, conn, "topic", large); !errors.As(err, &tooLarge) || tooLarge.Size < 2000 {
			t.Errorf("done got %v, want a *cloudevents.TooLargeError", err)
		}
		publish(t, conn, "topic", sampleEvent())
	})
}

// TestMaxPacketSize checks that the lower of the limits of broker and client applies, and that the
// client does not announce its own limit.
func TestMaxPacketSize(t *testing.T) {
	limited := mosquitto.Start(t, mosquitto.Options{MaxPacketSize: 10_000}).URL()
	for _, row := range []struct{ option, want int }{{0, 10_000}, {5000, 5000}, {20_000, 10_000}} {
		conn := connect(t, mqtt.Options{BrokerURL: limited, MaxPacketSize: uint32(row.option)})
		if got := conn.MaxPacketSize(); got != row.want {
			t.Errorf("option %d: MaxPacketSize is %d, want %d", row.option, got, row.want)
		}
	}
	received := make(chan cloudevents.Message, 1)
	connectWith(t, mqtt.Options{BrokerURL: limited, MaxPacketSize: 1000}, received, "topic")
	large := sampleEvent()
	large.SetDataContentType("text/plain")
	large.DataEncoded = []byte(strings.Repeat("x", 5000))
	publish(t, connect(t, mqtt.Options{BrokerURL: limited}), "topic", large)
	<-received
}

// TestFloodOfQoS0 checks that a flood of messages with QoS 0, which have no window, does not block
// acknowledgements. Receive waits for these.
func TestFloodOfQoS0(t *testing.T) {
	// with a window of 1, each Publish waits for the previous acknowledgement
	broker := mosquitto.Start(t, mosquitto.Options{MaxInflight: 1})
	var answerer atomic.Value
	var received, dropped atomic.Int64
	var closing atomic.Bool
	last := make(chan struct{})
	ready := make(chan struct{})
	transport := newTransport(t, mqtt.Options{BrokerURL: broker.URL()})
	conn, err := transport.Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: []string{"flood"},
		Receive: func(m cloudevents.Message) {
			<-ready
			received.Add(1)
			answer := cloudevents.Message{Topic: "answer", Event: m.Event}
			err := answerer.Load().(cloudevents.Conn).Publish(t.Context(), answer, func(error) {})
			if err != nil && !closing.Load() { // parts of the flood may arrive after the last message
				t.Errorf("Publish from within Receive: %v", err)
			}
			if m.Event.ID() == "last" {
				close(last)
			}
		},
		Refuse: func(topic string, err error) {
			var n int64
			if _, scan := fmt.Sscanf(err.Error(), "%d messages of QoS 0 were dropped", &n); scan != nil {
				t.Errorf("refused on %q: %v", topic, err)
			}
			dropped.Add(n)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answerer.Store(conn)
	payload, err := json.Marshal(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	const count = 5000
	flood := make([]*paho.Publish, count)
	for i := range flood {
		flood[i] = &paho.Publish{Topic: "flood", Payload: payload}
	}
	publishRaw(t, broker.Addr(), flood...)
	close(ready)
	e := sampleEvent()
	e.SetID("last")
	publish(t, connect(t, mqtt.Options{BrokerURL: broker.URL()}), "flood", e)
	select {
	case <-last:
	case <-time.After(patience):
		t.Fatal("the reliable message did not come through")
	}
	closing.Store(true)
	_ = conn.Close()
	if got := received.Load() - 1 + dropped.Load(); got > count {
		t.Errorf("received and dropped %d messages of %d", got, count)
	}
	t.Logf("received %d, dropped %d of %d messages of QoS 0", received.Load()-1, dropped.Load(), count)
}

// BenchmarkConnection measures the memory of an idle connection.
func BenchmarkConnection(b *testing.B) {
	broker := mosquitto.Start(b, mosquitto.Options{})
	const count = 500
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	for b.Loop() {
		before := inUse()
		conns := make([]cloudevents.Conn, count)
		for i := range conns {
			received := make(chan cloudevents.Message, 1)
			conns[i] = connectWith(b, mqtt.Options{BrokerURL: broker.URL()}, received, "/sources/+/clusters/"+fmt.Sprint(i)+
				"/manifests")
			publish(b, conns[i], "/sources/s/clusters/"+fmt.Sprint(i)+"/manifests", benchEvent())
			<-received
		}
		b.ReportMetric(float64(inUse()-before)/count, "bytes/connection")
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}
