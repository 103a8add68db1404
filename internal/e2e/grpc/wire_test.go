// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package grpc tests the gRPC wire format against OCM's SDK, linked into the same process.
package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
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

// seeds adds encoded events to the corpus.
func seeds(f *testing.F) {
	e := ce.New()
	e.SetID("1")
	e.SetSource("s")
	e.SetType("t")
	e.SetTime(time.Unix(1700000000, 5).UTC())
	e.SetExtension("n", 7)
	e.SetExtension("clustername", "c1")
	e.SetExtension("originalsource", "hub")
	valid, err := grpcwire.AppendEvent(nil, &e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte("\x0a\x01\xff"))
	entry := func(name, value string) []byte {
		text := protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), value)
		b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), text)
	}
	attribute := func(entry []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), entry)
	}
	hidden := protowire.AppendVarint(protowire.AppendTag(entry("ce-clustername", "c2"), 1, protowire.VarintType), 0)
	structured := protowire.AppendString(protowire.AppendTag(attribute(entry("contenttype", "Application/cloudevents+json")),
		6, protowire.BytesType), `{"specversion":"1.0","id":"1","source":"s","type":"t","clustername":"c2"}`)
	for _, more := range [][]byte{
		attribute(hidden), structured, attribute(entry("ce-CLUSTERNAME", "c2")), attribute(entry("ce-type", "t2")),
		attribute(entry("ce-source", "kube")), attribute(entry("ce-data", "x")), attribute(entry("ce-schemaurl", "x")),
		attribute(entry("ce-datacontentencoding", "base64")), attribute(entry("ce-subject", "")),
	} {
		f.Add(append(bytes.Clone(valid), more...))
		f.Add(append(bytes.Clone(more), valid...))
	}
}

// FuzzCheckEvent checks that protobuf reads the events that CheckEvent accepts.
func FuzzCheckEvent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := proto.Unmarshal(b, &pbv1.CloudEvent{}); err != nil && grpcwire.CheckEvent(b) == nil {
			t.Errorf("CheckEvent accepted an event that protobuf refuses: %v", err)
		}
	})
}

// FuzzParseEvent checks that OCM's SDK reads the same event as ParseEvent: from the bytes, unless it
// returns an error, and always from the canonical form.
func FuzzParseEvent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := grpcwire.ParseEvent(b)
		if err != nil {
			return
		}
		want := identity(e)
		if theirs, err := readOCM(b); err == nil {
			if diff := cmp.Diff(want, identity(theirs)); diff != "" {
				t.Errorf("read from the same bytes (-ours +theirs):\n%s", diff)
			}
		}
		canonical, err := grpcwire.AppendEvent(nil, e)
		if err != nil {
			return // the server refuses it
		}
		theirs, err := readOCM(canonical)
		if errors.Is(err, binding.ErrUnknownEncoding) && len(e.Extensions()) == 0 {
			return // OCM's SDK does not read events without attributes
		}
		if err != nil {
			t.Fatalf("OCM's SDK does not read the canonical form of %s: %v", e, err)
		}
		if diff := cmp.Diff(want, identity(theirs)); diff != "" {
			t.Errorf("read from the canonical form (-ours +theirs):\n%s", diff)
		}
	})
}

// readOCM reads an event with OCM's SDK.
func readOCM(b []byte) (*ce.Event, error) {
	var message pbv1.CloudEvent
	if err := proto.Unmarshal(b, &message); err != nil {
		return nil, err
	}
	return binding.ToEvent(context.Background(), protocol.NewMessage(&message))
}

// identity has the parts of an event that decide its receivers.
func identity(e *ce.Event) map[string]string {
	parts := map[string]string{"id": e.ID(), "source": e.Source(), "type": e.Type()}
	for _, name := range []string{"clustername", "originalsource"} {
		if value, ok := e.Extensions()[name]; ok {
			text, err := types.Format(value)
			parts[name] = fmt.Sprint(text, err)
		}
	}
	return parts
}
