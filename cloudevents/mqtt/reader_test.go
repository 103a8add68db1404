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

	"slices"

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
		for _, m := range [][]byte{message("many/few", 1000), message("many/"+strings.Repeat("x", 5000), 500_000),
			message("many/more", 500_000)} {
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

// TestReaderReturnsEOFAtEndOfPacket checks that the last bytes of a packet are returned with
// io.EOF, so paho needs no second, larger buffer. The next packet can then still be read.
func TestReaderReturnsEOFAtEndOfPacket(t *testing.T) {
	rest := bytes.Repeat([]byte{7}, 300) // its length needs two bytes
	packet := append([]byte{0x30, 0xac, 0x02}, rest...)
	for _, step := range []int{1, 100, 10_000} {
		source := pieces{data: slices.Concat(packet, []byte{0xd0, 0}, packet), step: step}
		read := readerFunc(mqtt.ReadThrough(source.Read))
		for i, header := range []int{3, 5} { // before the second packet there is a packet without a rest
			if _, err := io.ReadFull(read, make([]byte, header)); err != nil {
				t.Fatalf("pieces of %d, packet %d: header: %v", step, i, err)
			}
			got, err := io.ReadAll(io.LimitReader(read, 1000)) // ends with io.EOF
			if err != nil || !bytes.Equal(got, rest) {
				t.Errorf("pieces of %d, packet %d: %d bytes, %v", step, i, len(got), err)
			}
		}
	}
}

// FuzzReader checks that the buffered reader returns the bytes unchanged and never more than one
// packet at a time. It rejects lengths that MQTT does not allow.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0x20, 3, 0, 0, 0, 0xd0, 0, 0x30, 5, 0, 1, 't', 0, 'x'}, byte(3))
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 0x7f}, byte(1))
	f.Add(append([]byte{0x30, 0x80, 0x40}, make([]byte, 8192)...), byte(255))
	f.Fuzz(func(t *testing.T, input []byte, step byte) {
		if len(input) > 256<<10 {
			return // it may have too many properties
		}
		source := pieces{data: input, step: int(step) + 1}
		read := readerFunc(mqtt.ReadThrough(source.Read))
		var all []byte
		header := func() (b byte, ok bool) {
			var one [1]byte
			if _, err := io.ReadFull(read, one[:]); err != nil {
				return 0, false
			}
			all = append(all, one[0])
			return one[0], true
		}
		for {
			if _, ok := header(); !ok {
				break
			}
			length, shift, complete := 0, 0, false
			for ; !complete; shift += 7 {
				b, ok := header()
				if !ok {
					break
				}
				length |= int(b&0x7f) << shift
				complete = b&0x80 == 0
			}
			if shift > 28 {
				t.Fatalf("a length of more than four bytes was handed out: %x", all)
			}
			if !complete {
				break
			}
			rest := make([]byte, min(length, len(input)))
			n, err := io.ReadFull(read, rest)
			all = append(all, rest[:n]...)
			if err != nil {
				break
			}
		}
		if !bytes.HasPrefix(input, all) {
			t.Fatalf("read %x from %x", all, input)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// pieces returns data in pieces of limited size.
type pieces struct {
	data []byte
	step int
}

func (r *pieces) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data[:min(r.step, len(r.data))])
	r.data = r.data[n:]
	return n, nil
}
