// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package grpc tests the gRPC wire format against OCM's SDK, linked into the same process.
package grpc

import (
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/protobuf/proto"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protocol"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestEventsOfBothSDKsAreEqual checks that OCM's SDK reads our events with all types, and we theirs.
func TestEventsOfBothSDKsAreEqual(t *testing.T) {
	e := ce.New()
	e.SetID("1")
	e.SetSource("s")
	e.SetType("io.open-cluster-management.works.v1alpha1.manifestbundles.spec.create_request")
	e.SetTime(time.Unix(1700000000, 5).UTC())
	e.SetExtension("resourceversion", -7)
	e.SetExtension("clustername", "c1")
	e.SetDataContentType("application/json")
	e.DataEncoded = []byte(`{"a":1}`)

	ours, err := grpcwire.AppendEvent(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	var read, written pbv1.CloudEvent
	if err := proto.Unmarshal(ours, &read); err != nil {
		t.Fatal(err)
	}
	if err := protocol.WritePBMessage(t.Context(), binding.ToMessage(&e), &written); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&read, &written) {
		t.Errorf("we write\n%v\nOCM's SDK writes\n%v", &read, &written)
	}
	theirs, err := proto.Marshal(&written)
	if err != nil {
		t.Fatal(err)
	}
	got, err := grpcwire.ParseEvent(theirs)
	if err != nil {
		t.Fatal(err)
	}
	e.SetExtension("resourceversion", "-7")
	if got.String() != e.String() {
		t.Errorf("got\n%s\nwant\n%s", got, e)
	}
}

// FuzzCheckEvent checks that protobuf reads the events that CheckEvent accepts, and no others.
func FuzzCheckEvent(f *testing.F) {
	e := ce.New()
	e.SetID("1")
	e.SetSource("s")
	e.SetType("t")
	e.SetTime(time.Unix(1700000000, 5).UTC())
	e.SetExtension("n", 7)
	e.SetExtension("s", "text")
	valid, err := grpcwire.AppendEvent(nil, &e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte("\x0a\x01\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want, got := proto.Unmarshal(b, &pbv1.CloudEvent{}), grpcwire.CheckEvent(b)
		if (want == nil) != (got == nil) {
			t.Errorf("CheckEvent returned %v, protobuf %v", got, want)
		}
	})
}
