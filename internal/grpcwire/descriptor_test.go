// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestDescriptorsMatchFrames checks that protobuf reads the frames by their descriptors.
func TestDescriptorsMatchFrames(t *testing.T) {
	files, err := grpcwire.Descriptors()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		frame grpcwire.Encoder
		json  string
	}{
		"ClientFrame": {&grpcwire.ClientFrame{
			Subscribe: &grpcwire.Subscribe{Filters: []string{"a"}, Optional: []string{"b"}, Window: 9},
			Messages:  []grpcwire.Message{{Topic: "t", Event: []byte("e")}}, Acknowledged: 3,
		}, `{"subscribe":{"filters":["a"],"optional":["b"],"window":"9"},"messages":[{"topic":"t","event":"ZQ=="}],
			"acknowledged":"3"}`},
		"ServerFrame": {&grpcwire.ServerFrame{
			Granted:  &grpcwire.Granted{MaxMessageSize: 5, Denied: []grpcwire.Denial{{Filter: "b", Code: 7, Reason: "r"}}},
			Messages: []grpcwire.Message{{Topic: "t", Event: []byte("e")}}, Acknowledged: 3,
			Refused: []grpcwire.Refusal{{Number: 1, Code: 8, Reason: "r"}},
		}, `{"granted":{"maxMessageSize":"5","denied":[{"filter":"b","code":7,"reason":"r"}]},
			"messages":[{"topic":"t","event":"ZQ=="}],"acknowledged":"3","refused":[{"number":"1","code":8,"reason":"r"}]}`},
	} {
		full := protoreflect.FullName("spokewire.cloudevents.v1." + name)
		descriptor, err := files.FindDescriptorByName(full)
		if err != nil {
			t.Fatal(err)
		}
		got := dynamicpb.NewMessage(descriptor.(protoreflect.MessageDescriptor))
		if err := proto.Unmarshal(row.frame.Encode().Materialize(), got); err != nil {
			t.Fatal(err)
		}
		want := got.New().Interface()
		if err := protojson.Unmarshal([]byte(row.json), want); err != nil {
			t.Fatal(err)
		}
		if len(got.GetUnknown()) > 0 || !proto.Equal(want, got) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(full); err == nil {
			t.Errorf("%s is in the registry of the process", name)
		}
	}
}
