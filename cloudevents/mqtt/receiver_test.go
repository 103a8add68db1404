// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

const (
	largeCount = 60
	largeSize  = 1 << 20
)

// publishLarge publishes messages of 1 MiB, in order.
func publishLarge(t *testing.T, broker *mosquitto.Broker) {
	t.Helper()
	publisher := connect(t, mqtt.Options{BrokerURL: broker.URL()})
	for i := range largeCount {
		e := sampleEvent()
		e.SetID(strconv.Itoa(i))
		e.SetDataContentType("text/plain")
		e.DataEncoded = []byte(strings.Repeat("x", largeSize))
		publish(t, publisher, "large", e)
	}
}

func waitForLast(t *testing.T, conn cloudevents.Conn, last <-chan struct{}) {
	t.Helper()
	select {
	case <-last:
	case <-conn.Done():
		t.Fatal(conn.Err())
	case <-time.After(patience):
		t.Fatal("the last message did not come")
	}
}

// TestSlowReceiveIsBounded checks that the memory of unhandled messages is bounded if Receive is
// slower than the broker. Each call takes longer than StuckAfter, the limit of a pause while an
// acknowledgement is awaited.
func TestSlowReceiveIsBounded(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{MaxInflight: 1000})
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	begin := inUse()
	var peak uint64
	last := make(chan struct{})
	n := 0
	conn, err := newTransport(t, mqtt.Options{BrokerURL: broker.URL()}).Connect(t.Context(),
		connectOptions(t, func(cloudevents.Message) {
			time.Sleep(mqtt.StuckAfter + 20*time.Millisecond)
			peak = max(peak, inUse())
			if n++; n == largeCount {
				close(last)
			}
		}, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	publishLarge(t, broker)
	waitForLast(t, conn, last)
	_ = conn.Close()
	// The queue has 4 MiB. The messages that are being read, handled and published add several
	// copies.
	if grown := peak - begin; grown > 32<<20 {
		t.Errorf("the heap grew by %d KiB, want at most 32 MiB", grown>>10)
	}
}

// TestPingsWhileReceiveIsSlow checks that a pause of reading, while a message is handled, does not
// count as silence of the broker.
func TestPingsWhileReceiveIsSlow(t *testing.T) {
	const keepAlive = time.Second
	broker := mosquitto.Start(t, mosquitto.Options{MaxInflight: 1000})
	last := make(chan struct{})
	n := 0
	transport := newTransport(t, mqtt.Options{BrokerURL: broker.URL(), KeepAlive: keepAlive})
	conn, err := transport.Connect(t.Context(), connectOptions(t, func(cloudevents.Message) {
		if n++; n == 1 {
			time.Sleep(4 * keepAlive)
		}
		if n == largeCount {
			close(last)
		}
	}, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	publishLarge(t, broker)
	waitForLast(t, conn, last)
}

// TestLinkBreaksWhileReceiveIsSlow checks that a failed write ends the connection while reading is
// paused.
func TestLinkBreaksWhileReceiveIsSlow(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{MaxInflight: 1000})
	release := make(chan struct{})
	transport := newTransport(t, mqtt.Options{BrokerURL: broker.URL(), KeepAlive: time.Second})
	conn, err := transport.Connect(t.Context(), connectOptions(t, func(cloudevents.Message) { <-release }, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer close(release)
	publishLarge(t, broker)
	broker.Kill()
	select {
	case <-conn.Done():
	case <-time.After(patience):
		t.Error("the connection does not end")
	}
}

// TestAcknowledgementBehindMessages checks that Receive gets the acknowledgement that it waits for,
// although more messages than the limit precede it.
func TestAcknowledgementBehindMessages(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{MaxInflight: 1000})
	ready, last := make(chan struct{}), make(chan struct{})
	var answerer atomic.Value
	n := 0
	transport := newTransport(t, mqtt.Options{BrokerURL: broker.URL()})
	conn, err := transport.Connect(t.Context(), connectOptions(t, func(m cloudevents.Message) {
		<-ready
		if n++; n == 1 || n == largeCount {
			publish(t, answerer.Load().(cloudevents.Conn), "answer", sampleEvent())
		}
		if n == largeCount {
			close(last)
		}
	}, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answerer.Store(conn)
	publishLarge(t, broker)
	close(ready)
	waitForLast(t, conn, last)
}

// TestLargestPacket checks that a message above 16 MiB is not published, and that the broker does
// not deliver such a message from another client.
func TestLargestPacket(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	received := make(chan cloudevents.Message, 2)
	conn := connectWith(t, mqtt.Options{BrokerURL: broker.URL(), MaxPacketSize: 20 << 20}, received, "topic")
	large := sampleEvent()
	large.SetDataContentType("text/plain")
	large.DataEncoded = []byte(strings.Repeat("x", 17<<20))
	var tooLarge *cloudevents.TooLargeError
	err := conn.Publish(t.Context(), cloudevents.Message{Topic: "topic", Event: large}, nil)
	if !errors.As(err, &tooLarge) || tooLarge.Limit != 16<<20 || conn.MaxPacketSize() != tooLarge.Limit {
		t.Errorf("got %v and a limit of %d, want a *cloudevents.TooLargeError about 16 MiB", err, conn.MaxPacketSize())
	}
	publishRaw(t, broker.Addr(), &paho.Publish{QoS: 1, Topic: "topic", Payload: large.DataEncoded})
	publish(t, conn, "topic", sampleEvent())
	if m := <-received; m.Event.ID() != sampleEvent().ID() {
		t.Errorf("received %d bytes", len(m.Event.Data()))
	}
}
