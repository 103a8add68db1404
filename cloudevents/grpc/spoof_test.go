// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"bytes"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// publishOn publishes an event on a topic, as a user of the service Broker.
func (s *plainServer) publishOn(user, topic string, event []byte) codes.Code {
	s.t.Helper()
	stream, err := s.dial(user).NewStream(s.t.Context(), grpc.ConnectStream, grpc.ConnectMethod)
	if err != nil {
		s.t.Fatal(err)
	}
	frame := &grpcwire.ClientFrame{
		Subscribe: &grpcwire.Subscribe{}, Messages: []grpcwire.Message{{Topic: topic, Event: event}},
	}
	if err := stream.SendMsg(frame); err != nil {
		s.t.Fatal(err)
	}
	for {
		var answer grpcwire.ServerFrame
		if err := stream.RecvMsg(&answer); err != nil {
			return status.Code(err)
		}
		for _, r := range answer.Refused {
			return codes.Code(r.Code)
		}
		if answer.Acknowledged > 0 {
			return codes.OK
		}
	}
}

// with appends an attribute to an encoded event.
func with(event []byte, name, value string) []byte {
	text := protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), value)
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), text)
	return protowire.AppendBytes(protowire.AppendTag(bytes.Clone(event), 5, protowire.BytesType), entry)
}

// TestEventsOfOthersAreRefused checks that an agent cannot publish events that a subscriber of OCM's
// service reads as those of another cluster or source.
func TestEventsOfOthersAreRefused(t *testing.T) {
	const topic = "sources/hub/clusters/c1/agentevents"
	encode := func(e *ce.Event) []byte { return encoded(t, e).Event }
	own := encode(plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub"))
	for _, c := range []struct {
		reason string
		event  []byte
		plain  bool // also over OCM's service
	}{
		{"another cluster", encode(plainEvent(ocm.DataType+".status.update_request", "a", "c2", "hub")), false},
		{"another source", encode(plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub2")), false},
		{"a spec", encode(plainEvent(ocm.DataType+".spec.create_request", "hub", "c1", "hub")), false},
		{"no work", encode(plainEvent("test", "a", "c1", "hub")), false},
		{"two clusters", with(own, "ce-CLUSTERNAME", "c2"), true},
		{"two types", with(own, "ce-type", ocm.DataType+".spec.delete_request"), true},
		{"structured mode", with(own, "contenttype", "Application/cloudevents+json"), true},
	} {
		withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
			all := s.local("#")
			if code := s.publishOn("c1", topic, c.event); code != codes.InvalidArgument {
				t.Errorf("%s: Connect returned %v, want InvalidArgument", c.reason, code)
			}
			if c.plain {
				err := s.publish("c1", &grpcwire.PublishRequest{Event: c.event})
				if status.Code(err) != codes.InvalidArgument {
					t.Errorf("%s: Publish returned %v, want InvalidArgument", c.reason, err)
				}
			}
			if got := all.topics(); len(got) != 0 {
				t.Errorf("%s: delivered on %q", c.reason, got)
			}
		})
	}
}

// TestDeliveredEventsAreCanonical checks that a subscriber of OCM's service receives an event as the
// server has read it, and that events on other topics are not changed.
func TestDeliveredEventsAreCanonical(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		want := encoded(t, plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub")).Event
		unusual := with(want, "unrelated", "c2")
		sub, err := s.subscribe("hub", grpcwire.SubscriptionRequest{Source: "hub", DataType: ocm.DataType})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.publish("c1", &grpcwire.PublishRequest{Event: unusual}); err != nil {
			t.Fatal(err)
		}
		if code := s.publishOn("c1", "sources/hub/clusters/c1/agentevents", unusual); code != codes.OK {
			t.Fatal(code)
		}
		for range 2 {
			var got grpcwire.Raw
			if err := sub.RecvMsg(&got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("received %q, want %q", got, want)
			}
		}
		const other = "/sources/hub/clusters/c1/manifestsstatus"
		stream, err := s.dial("hub").NewStream(t.Context(), grpc.ConnectStream, grpc.ConnectMethod)
		if err != nil {
			t.Fatal(err)
		}
		open := &grpcwire.ClientFrame{Subscribe: &grpcwire.Subscribe{Filters: []string{other}}}
		if err := stream.SendMsg(open); err != nil {
			t.Fatal(err)
		}
		var granted, delivered grpcwire.ServerFrame
		if err := stream.RecvMsg(&granted); err != nil {
			t.Fatal(err)
		}
		if code := s.publishOn("c1", other, unusual); code != codes.OK {
			t.Fatal(code)
		}
		if err := stream.RecvMsg(&delivered); err != nil {
			t.Fatal(err)
		}
		if len(delivered.Messages) != 1 || !bytes.Equal(delivered.Messages[0].Event, unusual) {
			t.Errorf("received %q, want the event %q", delivered.Messages, unusual)
		}
	})
}
