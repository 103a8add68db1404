// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	ce "github.com/cloudevents/sdk-go/v2/event"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protocol"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

// benchAhead limits the events that are sent but not yet received.
const benchAhead = 512

// BenchmarkEvents measures an event with 1,500 bytes of data from a source to an agent over TCP:
// "sdk" with acknowledgements through the server's broker; "ocm" on a bare gRPC stream with OCM's
// generated messages and its conversion to and from events.
func BenchmarkEvents(b *testing.B) {
	e := ce.New()
	e.SetID("1")
	e.SetSource("hub")
	e.SetType("io.open-cluster-management.works.v1alpha1.manifestbundles.spec.create_request")
	e.SetExtension("resourceid", "6ba7b812-9dad-11d1-80b4-00c04fd430c8")
	e.SetExtension("resourceversion", 12)
	e.SetExtension("clustername", "cluster1")
	e.SetDataContentType("application/json")
	e.DataEncoded = []byte(`"` + strings.Repeat("x", 1498) + `"`)
	b.Run("sdk", func(b *testing.B) { benchSDK(b, &e) })
	b.Run("ocm", func(b *testing.B) { benchOCM(b, &e) })
}

func listen(b *testing.B) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return listener
}

// benchSend calls send b.N times, each after a place in ahead, and waits for the last event.
func benchSend(b *testing.B, ahead chan struct{}, send func() error) {
	b.ReportAllocs()
	for b.Loop() {
		ahead <- struct{}{}
		if err := send(); err != nil {
			b.Fatal(err)
		}
	}
	for range benchAhead {
		ahead <- struct{}{}
	}
}

func benchSDK(b *testing.B, e *ce.Event) {
	server, err := grpc.NewServer(grpc.ServerOptions{
		Insecure:   true,
		Authorizer: grpc.AuthorizerFunc(func(context.Context, grpc.Access) error { return nil }),
	})
	if err != nil {
		b.Fatal(err)
	}
	listener := listen(b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(b.Context(), listener) }()
	b.Cleanup(func() {
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	agent, err := grpc.New(grpc.Options{Address: listener.Addr().String(), Insecure: true})
	if err != nil {
		b.Fatal(err)
	}
	const topic = "/sources/hub/clusters/cluster1/manifests"
	ahead := make(chan struct{}, benchAhead)
	connect := func(t cloudevents.Transport, filters ...string) cloudevents.Conn {
		conn, err := t.Connect(b.Context(), cloudevents.ConnectOptions{
			Filters: filters,
			Receive: func(cloudevents.Message) { <-ahead },
			Refuse:  func(_ string, err error) { b.Error(err) },
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	connect(agent, topic)
	source := connect(server.Transport())
	benchSend(b, ahead, func() error {
		return source.Publish(b.Context(), cloudevents.Message{Topic: topic, Event: e}, nil)
	})
}

func benchOCM(b *testing.B, e *ce.Event) {
	desc := grpcgo.StreamDesc{StreamName: "Events", ServerStreams: true, ClientStreams: true}
	events, ahead := make(chan *ce.Event), make(chan struct{}, benchAhead)
	desc.Handler = func(_ any, stream grpcgo.ServerStream) error {
		for e := range events {
			var m pbv1.CloudEvent
			if err := protocol.WritePBMessage(stream.Context(), binding.ToMessage(e), &m); err != nil {
				return err
			}
			if err := stream.SendMsg(&m); err != nil {
				return err
			}
		}
		return nil
	}
	server := grpcgo.NewServer()
	server.RegisterService(&grpcgo.ServiceDesc{
		ServiceName: "bench.Bare", HandlerType: (*any)(nil), Streams: []grpcgo.StreamDesc{desc},
	}, b)
	listener := listen(b)
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(server.Stop)
	client, err := grpcgo.NewClient("passthrough:///"+listener.Addr().String(),
		grpcgo.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	stream, err := client.NewStream(b.Context(), &desc, "/bench.Bare/Events")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			var m pbv1.CloudEvent
			if stream.RecvMsg(&m) != nil {
				return
			}
			if _, err := binding.ToEvent(b.Context(), protocol.NewMessage(&m)); err != nil {
				b.Error(err)
			}
			<-ahead
		}
	}()
	benchSend(b, ahead, func() error { events <- e; return nil })
	close(events)
}
