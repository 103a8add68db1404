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
	b.Run("bare/pipelined", benchBare)
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
		if err := agent.Publish(b.Context(), cloudevents.Message{Topic: benchTopic + "status", Event: m.Event}, nil); err != nil {
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

func benchServe(b *testing.B, server *grpcgo.Server) (addr string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() {
		server.Stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	}
}

// benchBare uses gRPC's defaults and protobuf's codec.
func benchBare(b *testing.B) {
	sent := make(chan struct{}, benchAhead)
	server := grpcgo.NewServer()
	message := wrapperspb.Bytes(make([]byte, benchData+200+len(benchTopic)))
	handler := func(_ any, stream grpcgo.ServerStream) error {
		for range sent {
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
		return nil
	}
	server.RegisterService(&grpcgo.ServiceDesc{ServiceName: "bench.Bare", HandlerType: (*any)(nil),
		Streams: []grpcgo.StreamDesc{{StreamName: "Connect", Handler: handler, ServerStreams: true}}}, b)
	addr, stop := benchServe(b, server)
	defer stop()
	client, err := grpcgo.NewClient("passthrough:///"+addr, grpcgo.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	stream, err := client.NewStream(b.Context(), grpc.ConnectStream, "/bench.Bare/Connect")
	if err != nil {
		b.Fatal(err)
	}
	received := make(chan struct{}, benchAhead)
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
