// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"encoding/binary"
	"net"
	"testing"

	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// BenchmarkRoundTripGRPC compares BenchmarkRoundTrip over Mosquitto with the same over a gRPC server
// in the process of the source. "rawgrpc" only moves the same bytes, in gRPC streams without a
// broker. Run it with -benchtime=10000x too.
func BenchmarkRoundTripGRPC(b *testing.B) {
	b.Run("mosquitto", func(b *testing.B) {
		dial := overMQTT(b, mqtt.Options{BrokerURL: mosquitto.Start(b, mosquitto.Options{}).URL()})
		benchWorks(b, dial(), dial, nil)
	})
	b.Run("grpc", func(b *testing.B) {
		server, dial := startGRPC(b)
		benchWorks(b, server.Transport(), dial, nil)
	})
	b.Run("rawgrpc", func(b *testing.B) {
		ahead := make(chan struct{}, benchAhead)
		publishers(b, ahead, startRawStreams(b, func() { <-ahead }))
	})
}

func benchListen(b *testing.B) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return listener
}

// startGRPC starts a server, and returns it with a function that returns a transport to it.
func startGRPC(b *testing.B) (*grpc.Server, func() cloudevents.Transport) {
	server, err := grpc.NewServer(grpc.ServerOptions{
		Insecure: true, Authorizer: grpc.AuthorizerFunc(func(context.Context, grpc.Access) error { return nil }),
	})
	if err != nil {
		b.Fatal(err)
	}
	listener := benchListen(b)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{})) // discards
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	b.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return server, func() cloudevents.Transport {
		transport, err := grpc.New(grpc.Options{Address: listener.Addr().String(), Insecure: true})
		if err != nil {
			b.Fatal(err)
		}
		return transport
	}
}

// startRawStreams starts agents that answer each message of their streams, and a server that calls
// returned for each answer. It returns the function that sends message i to an agent.
func startRawStreams(b *testing.B, returned func()) func(i int) error {
	var queues [benchAgents]chan *grpcwire.Raw
	desc := grpcgo.StreamDesc{StreamName: "Connect", ServerStreams: true, ClientStreams: true}
	desc.Handler = func(_ any, stream grpcgo.ServerStream) error {
		var first grpcwire.Raw
		if err := stream.RecvMsg(&first); err != nil {
			return err
		}
		go func() {
			for stream.RecvMsg(new(grpcwire.Raw)) == nil {
				returned()
			}
		}()
		for m := range queues[first[0]] {
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	}
	server := grpcgo.NewServer(grpcgo.ForceServerCodecV2(grpcwire.NewCodec()))
	server.RegisterService(&grpcgo.ServiceDesc{
		ServiceName: "bench.Raw", HandlerType: (*any)(nil), Streams: []grpcgo.StreamDesc{desc},
	}, b)
	listener := benchListen(b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	for i := range queues {
		queues[i] = make(chan *grpcwire.Raw, benchAhead)
		startRawAgent(b, listener.Addr().String(), &desc, byte(i))
	}
	b.Cleanup(func() { // before those of the agents
		for _, queue := range queues {
			close(queue)
		}
		server.GracefulStop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return func(i int) error {
		out := make(grpcwire.Raw, rawOut)
		binary.BigEndian.PutUint64(out, uint64(i))
		queues[i%benchAgents] <- &out
		return nil
	}
}

func startRawAgent(b *testing.B, addr string, desc *grpcgo.StreamDesc, i byte) {
	client, err := grpcgo.NewClient("passthrough:///"+addr, grpcgo.WithTransportCredentials(insecure.NewCredentials()),
		grpcgo.WithDefaultCallOptions(grpcgo.ForceCodecV2(grpcwire.NewCodec())))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	stream, err := client.NewStream(context.Background(), desc, "/bench.Raw/Connect")
	if err == nil {
		err = stream.SendMsg(&grpcwire.Raw{i})
	}
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		back := make(grpcwire.Raw, rawBack)
		for stream.RecvMsg(new(grpcwire.Raw)) == nil {
			if err := stream.SendMsg(&back); err != nil {
				return
			}
		}
	}()
}
