// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// message returns a PUBLISH with QoS 1. Its properties are n times the user property "a" with an
// empty value.
func message(topic string, n int) []byte {
	properties := bytes.Repeat([]byte{packets.PropUser, 0, 1, 'a', 0, 0}, n)
	rest := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
	rest = append(append(rest, topic...), 0, 1)
	rest = append(append(rest, length(len(properties))...), properties...)
	rest = append(rest, "payload"...)
	return append(append([]byte{packets.PUBLISH<<4 | 1<<1}, length(len(rest))...), rest...)
}

// length encodes a length as an MQTT variable byte integer.
func length(n int) (out []byte) {
	for ; n > 0x7f; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// TestManyProperties checks that a message with hundreds of thousands of properties is refused with
// a reason. Its memory is not a multiple of its size, and other messages are not delayed.
func TestManyProperties(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{})
	received, refused := make(chan cloudevents.Message, 10), make(chan string, 10)
	transport := newTransport(t, mqtt.Options{BrokerURL: broker.URL()})
	if err := transport.Claim("receiver"); err != nil {
		t.Fatal(err)
	}
	options := connectOptions(t, func(m cloudevents.Message) { received <- m }, "many/#")
	options.Refuse = func(topic string, err error) { refused <- topic + ": " + err.Error() }
	conn, err := transport.Connect(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })

	evil, err := net.Dial("tcp", broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer evil.Close()
	hello := packets.NewControlPacket(packets.CONNECT)
	hello.Content.(*packets.Connect).ClientID = "evil"
	hello.Content.(*packets.Connect).CleanStart = true
	if _, err := hello.WriteTo(evil); err != nil {
		t.Fatal(err)
	}
	if answer, err := packets.ReadPacket(evil); err != nil || answer.Type != packets.CONNACK ||
		answer.Content.(*packets.Connack).ReasonCode != 0 {
		t.Fatalf("the broker answers %v, %v", answer, err)
	}
	bytes, _ := alloctest.Cost(func() {
		for _, m := range [][]byte{message("many/few", 1000), message("many/"+strings.Repeat("x", 5000), 500_000), message("many/more", 500_000)} {
			if _, err := evil.Write(m); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(evil, make([]byte, 4)); err != nil { // PUBACK
				t.Fatal(err)
			}
		}
		const dropped = ": the message has properties of more than 262144 bytes"
		for _, want := range []string{
			"many/few: the event is not a JSON object", "many/" + strings.Repeat("x", 5000) + dropped, "many/more" + dropped,
		} {
			select {
			case got := <-refused:
				if !strings.HasPrefix(got, want) {
					t.Errorf("got  %.300s\nwant %.300s", got, want)
				}
			case <-time.After(patience):
				t.Fatal("a message was not refused")
			}
		}
	})
	if n := bytes >> 20; n > 100 {
		t.Errorf("%d MiB were allocated", n)
	}
	began := time.Now()
	publish(t, conn, "many/good", sampleEvent())
	select {
	case <-received:
	case <-time.After(patience):
		t.Fatal("the event has not arrived")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("an event took %v", took)
	}
}
