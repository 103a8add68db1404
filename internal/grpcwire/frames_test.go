// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// through encodes a message through the codec, and decodes it into another one.
func through(t *testing.T, from, to any) []byte {
	t.Helper()
	codec := grpcwire.NewCodec()
	encoded, err := codec.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	b := encoded.Materialize()
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, to); err != nil {
		t.Fatal(err)
	}
	return b
}

func messages() []grpcwire.Message {
	return []grpcwire.Message{
		{Topic: "a/b", Event: []byte("small")}, {Topic: "large", Event: bytes.Repeat([]byte("x"), 100_000)},
		{Topic: "", Event: []byte{}}, {Topic: "after", Event: []byte("y")},
	}
}

func TestFramesAreUnchanged(t *testing.T) {
	client := grpcwire.ClientFrame{
		Subscribe: &grpcwire.Subscribe{Filters: []string{"a", "b/#"}, Optional: []string{"c"}, Window: 1 << 20},
		Messages:  messages(), Acknowledged: 1 << 40,
	}
	var gotClient grpcwire.ClientFrame
	through(t, &client, &gotClient)
	if diff := cmp.Diff(client, gotClient); diff != "" {
		t.Errorf("client frame (-sent +received):\n%s", diff)
	}
	server := grpcwire.ServerFrame{
		Granted:  &grpcwire.Granted{MaxMessageSize: 77, Denied: []grpcwire.Denial{{Filter: "c", Code: 7, Reason: "no"}}},
		Messages: messages(), Acknowledged: 3, Refused: []grpcwire.Refusal{{Number: 2, Code: 8, Reason: "full"}},
	}
	var gotServer grpcwire.ServerFrame
	through(t, &server, &gotServer)
	if diff := cmp.Diff(server, gotServer); diff != "" {
		t.Errorf("server frame (-sent +received):\n%s", diff)
	}
}

// TestReceivedEventsAreCopies checks that gRPC may use the buffers of a received frame again.
func TestReceivedEventsAreCopies(t *testing.T) {
	codec := grpcwire.NewCodec()
	for _, size := range []int{100, 10_000, 20_000, 100_000} {
		want := bytes.Repeat([]byte("x"), size)
		frame := grpcwire.ServerFrame{Messages: []grpcwire.Message{{Topic: "a", Event: want}}}
		b := frame.Encode().Materialize()
		for _, parts := range [][][]byte{{b}, {b[:50], b[50:]}} {
			var buffers mem.BufferSlice
			for _, part := range parts {
				buffers = append(buffers, mem.SliceBuffer(bytes.Clone(part)))
			}
			var got grpcwire.ServerFrame
			if err := codec.Unmarshal(buffers, &got); err != nil {
				t.Fatal(err)
			}
			for _, buffer := range buffers {
				clear(buffer.ReadOnlyData())
			}
			again, other := frame.Encode(), grpcwire.ServerFrame{Messages: []grpcwire.Message{{Event: make([]byte, size/2)}}}
			again.Free()
			other.Encode().Free()
			if !bytes.Equal(got.Messages[0].Event, want) {
				t.Errorf("an event of %d bytes has changed after its frame", size)
			}
		}
	}
}

func TestPlainMessagesAreUnchanged(t *testing.T) {
	publish := grpcwire.PublishRequest{Event: []byte("event")}
	var gotPublish grpcwire.PublishRequest
	through(t, &publish, &gotPublish)
	if diff := cmp.Diff(publish, gotPublish); diff != "" {
		t.Errorf("PublishRequest (-sent +received):\n%s", diff)
	}
	subscribe := grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: "a.b.c"}
	var gotSubscribe grpcwire.SubscriptionRequest
	through(t, &subscribe, &gotSubscribe)
	if diff := cmp.Diff(subscribe, gotSubscribe); diff != "" {
		t.Errorf("SubscriptionRequest (-sent +received):\n%s", diff)
	}
}

// TestFramesAreBounded checks that a frame of many empty entries is refused: it would be much larger
// in memory.
func TestFramesAreBounded(t *testing.T) {
	if err := new(grpcwire.ClientFrame).Decode(bytes.Repeat([]byte{2<<3 | 2, 0}, 5000)); err == nil {
		t.Error("a client frame of 5,000 messages was accepted")
	}
	if err := new(grpcwire.ServerFrame).Decode(bytes.Repeat([]byte{4<<3 | 2, 0}, 5000)); err == nil {
		t.Error("a server frame of 5,000 refusals was accepted")
	}
}

// TestQueuedEventDoesNotKeepFrame checks that a small event does not refer to the memory of a large
// frame: queues count events by their length.
func TestQueuedEventDoesNotKeepFrame(t *testing.T) {
	var got grpcwire.ClientFrame
	b := (&grpcwire.ClientFrame{Messages: messages()}).Encode().Materialize()
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if string(got.Messages[0].Event) != "small" {
		t.Error("a small event refers to its frame")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add((&grpcwire.ClientFrame{Messages: messages()[:1], Acknowledged: 1}).Encode().Materialize())
	f.Add((&grpcwire.ServerFrame{Granted: &grpcwire.Granted{}, Refused: []grpcwire.Refusal{{}}}).Encode().Materialize())
	f.Fuzz(func(t *testing.T, b []byte) {
		var client grpcwire.ClientFrame
		if err := client.Decode(b); err == nil {
			var again grpcwire.ClientFrame
			if err := again.Decode(client.Encode().Materialize()); err != nil {
				t.Errorf("an encoded client frame cannot be decoded: %v", err)
			}
		}
		var server grpcwire.ServerFrame
		if err := server.Decode(b); err == nil {
			var again grpcwire.ServerFrame
			if err := again.Decode(server.Encode().Materialize()); err != nil {
				t.Errorf("an encoded server frame cannot be decoded: %v", err)
			}
		}
	})
}
