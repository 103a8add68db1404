// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"bytes"
	"net"
	"strconv"
	"sync"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

const (
	benchData  = 1500 // bytes
	benchTopic = "/sources/hub/clusters/cluster1/manifests"
	// benchAhead limits the messages that are published but not yet received.
	benchAhead = 512
)

// BenchmarkPublish measures one message of 1,500 bytes that a source in the process, or over TCP,
// publishes and an agent over TCP receives. "bare" is a gRPC stream of the same bytes, without a
// broker.
func BenchmarkPublish(b *testing.B) {
	server := newServer(b, grpc.ServerOptions{})
	addr, _ := serve(b, server, "")
	remote := newTransport(b, grpc.Options{Address: addr, Insecure: true})
	b.Run("local/pipelined", func(b *testing.B) { benchPipelined(b, server.Transport(), remote) })
	b.Run("remote/pipelined", func(b *testing.B) { benchPipelined(b, remote, remote) })
	b.Run("local/roundtrip", func(b *testing.B) { benchRoundTrip(b, server.Transport(), remote) })
	b.Run("bare/pipelined", benchBarePipelined)
	b.Run("bare/roundtrip", benchBareRoundTrip)
}

func benchEvent() *ce.Event {
	e := newEvent()
	e.SetExtension("resourceid", "6ba7b812-9dad-11d1-80b4-00c04fd430c8")
	e.SetExtension("resourceversion", "12")
	e.SetExtension("clustername", "cluster1")
	e.SetDataContentType("application/json")
	e.DataEncoded = []byte(strconv.Quote(string(bytes.Repeat([]byte("x"), benchData-2))))
	return e
}

func benchConnect(
	b *testing.B, t cloudevents.Transport, receive func(cloudevents.Message), filters ...string,
) cloudevents.Conn {
	conn, err := t.Connect(b.Context(), cloudevents.ConnectOptions{
		Filters: filters, Receive: receive, Refuse: func(_ string, err error) { b.Error(err) },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

func benchPipelined(b *testing.B, from, to cloudevents.Transport) {
	ahead := make(chan struct{}, benchAhead)
	benchConnect(b, to, func(cloudevents.Message) { <-ahead }, benchTopic)
	publisher := benchConnect(b, from, nil)
	m := cloudevents.Message{Topic: benchTopic, Event: benchEvent()}
	var unacknowledged sync.WaitGroup
	done := func(err error) {
		if err != nil {
			b.Error(err)
		}
		unacknowledged.Done()
	}
	b.ReportAllocs()
	for b.Loop() {
		ahead <- struct{}{}
		unacknowledged.Add(1)
		if err := publisher.Publish(b.Context(), m, done); err != nil {
			b.Fatal(err)
		}
	}
	for range benchAhead {
		ahead <- struct{}{}
	}
	unacknowledged.Wait()
}

// benchRoundTrip measures a message and its answer.
func benchRoundTrip(b *testing.B, from, to cloudevents.Transport) {
	answered := make(chan struct{})
	source := benchConnect(b, from, func(cloudevents.Message) { answered <- struct{}{} }, benchTopic+"status")
	var agent cloudevents.Conn
	ready := make(chan struct{})
	agent = benchConnect(b, to, func(m cloudevents.Message) {
		<-ready
		if err := agent.Publish(b.Context(), cloudevents.Message{Topic: benchTopic + "status", Event: m.Event},
			nil); err != nil {
			b.Error(err)
		}
	}, benchTopic)
	close(ready)
	m := cloudevents.Message{Topic: benchTopic, Event: benchEvent()}
	b.ReportAllocs()
	for b.Loop() {
		if err := source.Publish(b.Context(), m, nil); err != nil {
			b.Fatal(err)
		}
		<-answered
	}
}

// startBare returns a stream to a server with a handler, with gRPC's defaults and protobuf's codec.
func startBare(b *testing.B, handler func(grpcgo.ServerStream) error) grpcgo.ClientStream {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpcgo.NewServer()
	desc := *grpc.ConnectStream
	desc.Handler = func(_ any, stream grpcgo.ServerStream) error { return handler(stream) }
	server.RegisterService(&grpcgo.ServiceDesc{
		ServiceName: "bench.Bare", HandlerType: (*any)(nil), Streams: []grpcgo.StreamDesc{desc},
	}, b)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	b.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	client, err := grpcgo.NewClient("passthrough:///"+listener.Addr().String(),
		grpcgo.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	stream, err := client.NewStream(b.Context(), grpc.ConnectStream, "/bench.Bare/Connect")
	if err != nil {
		b.Fatal(err)
	}
	return stream
}

func bareMessage() *wrapperspb.BytesValue {
	return wrapperspb.Bytes(make([]byte, benchData+200+len(benchTopic)))
}

func benchBarePipelined(b *testing.B) {
	sent, received := make(chan struct{}, benchAhead), make(chan struct{}, benchAhead)
	message := bareMessage()
	stream := startBare(b, func(stream grpcgo.ServerStream) error {
		for range sent {
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
		return nil
	})
	go func() {
		for stream.RecvMsg(new(wrapperspb.BytesValue)) == nil {
			<-received
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		received <- struct{}{}
		sent <- struct{}{}
	}
	for range benchAhead {
		received <- struct{}{}
	}
	close(sent)
}

func benchBareRoundTrip(b *testing.B) {
	stream := startBare(b, func(stream grpcgo.ServerStream) error {
		for {
			message := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(message); err != nil {
				return err
			}
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
	})
	message := bareMessage()
	b.ReportAllocs()
	for b.Loop() {
		err := stream.SendMsg(message)
		if err == nil {
			err = stream.RecvMsg(new(wrapperspb.BytesValue))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
