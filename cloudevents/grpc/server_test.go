// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/grpcwire"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// rawClient is a client without the transport.
func rawClient(t testing.TB, addr string) *grpcgo.ClientConn {
	t.Helper()
	client, err := grpcgo.NewClient("passthrough:///"+addr, grpcgo.WithTransportCredentials(insecure.NewCredentials()),
		grpcgo.WithDefaultCallOptions(grpcgo.ForceCodecV2(grpcwire.NewCodec()), grpcgo.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// rawStream is a connection without the transport. It has not sent the first frame.
func rawStream(t *testing.T, addr string) grpcgo.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := rawClient(t, addr).NewStream(ctx, grpc.ConnectStream, grpc.ConnectMethod)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t *testing.T, stream grpcgo.ClientStream, frame *grpcwire.ClientFrame) {
	t.Helper()
	if err := stream.SendMsg(frame); err != nil && !errors.Is(err, io.EOF) { // the status is read
		t.Fatal(err)
	}
}

func receive(t *testing.T, stream grpcgo.ClientStream) *grpcwire.ServerFrame {
	t.Helper()
	frame := &grpcwire.ServerFrame{}
	if err := stream.RecvMsg(frame); err != nil {
		t.Fatal(err)
	}
	return frame
}

// end returns the status of a stream after its frames.
func end(stream grpcgo.ClientStream) *status.Status {
	for {
		if err := stream.RecvMsg(&grpcwire.ServerFrame{}); errors.Is(err, io.EOF) {
			return status.New(codes.OK, "")
		} else if err != nil {
			return status.Convert(err)
		}
	}
}

func opening(filters ...string) *grpcwire.ClientFrame {
	return &grpcwire.ClientFrame{Subscribe: &grpcwire.Subscribe{Filters: filters}}
}

func TestMalformedFramesEndStream(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	for _, row := range []struct {
		name   string
		frames []*grpcwire.ClientFrame
	}{
		{"no field subscribe", []*grpcwire.ClientFrame{{}}},
		{"malformed filter", []*grpcwire.ClientFrame{opening("a/#/b")}},
		{"too many filters", []*grpcwire.ClientFrame{opening(make([]string, 100)...)}},
		{"two subscriptions", []*grpcwire.ClientFrame{opening("a"), opening("b")}},
		{"acknowledgement without a delivery", []*grpcwire.ClientFrame{opening("a"), {Acknowledged: 1}}},
	} {
		stream := rawStream(t, addr)
		for _, frame := range row.frames {
			send(t, stream, frame)
		}
		if got := end(stream); got.Code() != codes.InvalidArgument {
			t.Errorf("%s: the stream ended with %v, want InvalidArgument", row.name, got)
		}
	}
}

// TestUndecodableFramesEndStream checks frames that are not protobuf or have too many entries, as the
// first frame and as a later one.
func TestUndecodableFramesEndStream(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	for _, first := range []bool{true, false} {
		for _, frame := range []grpcwire.Raw{{0xff}, bytes.Repeat([]byte{2<<3 | 2, 0}, 5000)} {
			stream := rawStream(t, addr)
			if !first {
				send(t, stream, opening("a"))
			}
			if err := stream.SendMsg(&frame); err != nil {
				t.Fatal(err)
			}
			if got := end(stream); got.Code() != codes.InvalidArgument || !strings.Contains(got.Message(), "decode") {
				t.Errorf("first %v, frame %.4q: the stream ended with %v, want InvalidArgument", first, frame, got)
			}
		}
	}
}

// TestRefusalConcernsOneMessage checks the codes of refused messages, and that others are delivered.
func TestRefusalConcernsOneMessage(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{MaxMessageSize: 1000})
	addr, _ := serve(t, server, "")
	stream := rawStream(t, addr)
	send(t, stream, opening("t/#"))
	if got := receive(t, stream).Granted; got == nil || got.MaxMessageSize != 1000 {
		t.Fatalf("the first frame has %+v, want granted with the size 1000", got)
	}
	event := eventBytes
	send(t, stream, &grpcwire.ClientFrame{Messages: []grpcwire.Message{
		{Topic: "t/1", Event: event}, {Topic: "t/2"}, {Topic: "t/+", Event: event},
		{Topic: "t/4", Event: append([]byte("\x0a\xe8\x07"), make([]byte, 1000)...)}, {Topic: "t/5", Event: event},
		{Topic: "t/6", Event: []byte("x")},
	}})
	var answered uint64
	var topics []string
	refused := map[uint64]codes.Code{}
	for answered < 6 || len(topics) < 2 {
		frame := receive(t, stream)
		answered = max(answered, frame.Acknowledged)
		for _, m := range frame.Messages {
			topics = append(topics, m.Topic)
		}
		for _, r := range frame.Refused {
			refused[r.Number] = codes.Code(r.Code)
		}
	}
	want := map[uint64]codes.Code{2: codes.InvalidArgument, 3: codes.InvalidArgument, 4: codes.OutOfRange,
		6: codes.InvalidArgument}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"t/1", "t/5"}, topics); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
}

// TestSubscriberThatNeverReads checks that its queue is bounded, that it ends with
// ResourceExhausted, and that another subscriber is not delayed.
func TestSubscriberThatNeverReads(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{MaxQueueBytes: 1 << 20})
	server.SetStall(time.Second)
	addr, _ := serve(t, server, "")
	stream := rawStream(t, addr)
	send(t, stream, opening("t"))
	receive(t, stream)
	received := make(chan struct{}, 1)
	other := connect(t, server.Transport(), func(cloudevents.Message) { received <- struct{}{} }, "other")

	most := 0
	large := bytes.Repeat([]byte("x"), 64<<10)
	var refused error
	for refused == nil {
		if refused = server.PublishRaw("t", large); refused == nil {
			most++
		}
		if most > 1000 {
			t.Fatal("the queue has no bound")
		}
	}
	if err := other.Publish(t.Context(), message("other"), nil); err != nil {
		t.Fatal(err)
	}
	<-received
	waitFor(t, "the end of the subscriber", func() bool { return server.PublishRaw("t", large) == nil })
	if got := end(stream); got.Code() != codes.ResourceExhausted {
		t.Errorf("the stream ended with %v, want ResourceExhausted", got)
	}
}

func message(topic string) cloudevents.Message {
	return cloudevents.Message{Topic: topic, Event: newEvent()}
}

// connect opens a connection that is closed at the end of the test.
func connect(
	t *testing.T, transport cloudevents.Transport, receive func(cloudevents.Message), filters ...string,
) cloudevents.Conn {
	t.Helper()
	conn, err := transport.Connect(t.Context(), cloudevents.ConnectOptions{
		Filters: filters, Receive: receive,
		Refuse: func(topic string, err error) { t.Errorf("refused on topic %q: %v", topic, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestPublisherThatNeverReads checks that refusals for a client that does not read them are bounded:
// the server stops reading its publications, and other clients go on.
func TestPublisherThatNeverReads(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{})
	addr, _ := serve(t, server, "")
	stream := rawStream(t, addr)
	send(t, stream, opening("t"))
	receive(t, stream)
	bad := make([]grpcwire.Message, 4000)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 1000 {
			if stream.SendMsg(&grpcwire.ClientFrame{Messages: bad}) != nil {
				return
			}
		}
	}()
	received := make(chan struct{}, 1)
	transport := newTransport(t, grpc.Options{Address: addr, Insecure: true})
	conn := connect(t, transport, func(cloudevents.Message) { received <- struct{}{} }, "other")
	if err := conn.Publish(t.Context(), message("other"), nil); err != nil {
		t.Fatal(err)
	}
	<-received
	select {
	case <-sent:
		t.Error("the server reads publications without a bound")
	default:
	}
	var answered uint64
	for answered < 8000 {
		answered = max(answered, receive(t, stream).Acknowledged)
	}
}

// TestServeDeliversQueueBeforeItsEnd checks that clients receive queued messages after the end of
// the context, and then the code Unavailable. Their publications have no answer.
func TestServeDeliversQueueBeforeItsEnd(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{DrainTimeout: patience})
	addr, stop := serve(t, server, "")
	stream := rawStream(t, addr)
	send(t, stream, opening("t"))
	receive(t, stream)
	for range 3 {
		if err := server.PublishRaw("t", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	waitFor(t, "the end of the listener", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	var got uint64
	for got < 3 {
		got += uint64(len(receive(t, stream).Messages))
	}
	send(t, stream, &grpcwire.ClientFrame{Messages: []grpcwire.Message{{Topic: "t", Event: []byte("late")}}})
	send(t, stream, &grpcwire.ClientFrame{Acknowledged: got})
	frame := &grpcwire.ServerFrame{}
	if err := stream.RecvMsg(frame); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v and frame %+v, want Unavailable", err, frame)
	}
	<-stopped
}

// TestDrainIsBounded checks that Serve ends although a client acknowledges nothing, and another has
// sent no first frame.
func TestDrainIsBounded(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{DrainTimeout: time.Millisecond})
	addr, stop := serve(t, server, "")
	stream := rawStream(t, addr)
	send(t, stream, opening("t"))
	receive(t, stream)
	if err := server.PublishRaw("t", []byte("x")); err != nil {
		t.Fatal(err)
	}
	silent := rawStream(t, addr)
	stop()
	for _, stream := range []grpcgo.ClientStream{stream, silent} {
		if got := end(stream); got.Code() != codes.Unavailable {
			t.Errorf("the stream ended with %v, want Unavailable", got)
		}
	}
}

// TestStreamNeedsFirstFrame checks that a stream without a first frame ends.
func TestStreamNeedsFirstFrame(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	if got := end(rawStream(t, addr)); got.Code() != codes.DeadlineExceeded {
		t.Errorf("the stream ended with %v, want DeadlineExceeded", got)
	}
}

// TestOwnServer checks that the services work on a gRPC server of the program, next to services with
// protobuf messages.
func TestOwnServer(t *testing.T) {
	server := newServer(t, grpc.ServerOptions{})
	own := grpcgo.NewServer(server.GRPCOptions(insecure.NewCredentials())...)
	drain := server.Register(own)
	healthv1.RegisterHealthServer(own, healthv1.UnimplementedHealthServer{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- own.Serve(listener) }()
	conn := connect(t, newTransport(t, grpc.Options{Address: listener.Addr().String(), Insecure: true}), nil)
	_, err = healthv1.NewHealthClient(rawClient(t, listener.Addr().String())).Check(t.Context(),
		&healthv1.HealthCheckRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("another service returned %v, want Unimplemented", err)
	}
	drain()
	own.GracefulStop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-conn.Done()
	if got := status.Code(conn.Err()); got != codes.Unavailable {
		t.Errorf("the connection ended with %v, want Unavailable", conn.Err())
	}
}

// TestLongTopic checks that a topic over the limit is refused with a short text.
func TestLongTopic(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	stream := rawStream(t, addr)
	send(t, stream, opening())
	receive(t, stream)
	for _, topic := range []string{strings.Repeat("\x01", 1<<20), strings.Repeat("/", 1<<20)} {
		send(t, stream, &grpcwire.ClientFrame{Messages: []grpcwire.Message{{Topic: topic, Event: eventBytes}}})
		refused := receive(t, stream).Refused
		if len(refused) != 1 || codes.Code(refused[0].Code) != codes.InvalidArgument || len(refused[0].Reason) > 520 {
			t.Errorf("%.5q…: %d refusals, want one, InvalidArgument, with at most 520 bytes", topic, len(refused))
		}
	}
}

// TestLongReason checks that the text of an authorizer is cut.
func TestLongReason(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{
		Authorizer: grpc.AuthorizerFunc(func(context.Context, grpc.Access) error {
			return errors.New(strings.Repeat("x", 1<<20))
		}),
	}), "")
	stream := rawStream(t, addr)
	send(t, stream, &grpcwire.ClientFrame{Subscribe: &grpcwire.Subscribe{Optional: []string{"a"}}})
	denied := receive(t, stream).Granted.Denied
	send(t, stream, &grpcwire.ClientFrame{Messages: []grpcwire.Message{{Topic: "a", Event: eventBytes}}})
	refused := receive(t, stream).Refused
	if len(denied) != 1 || len(denied[0].Reason) > 520 || len(refused) != 1 || len(refused[0].Reason) > 520 {
		t.Errorf("got %d denials and %d refusals, want one of at most 520 bytes each", len(denied), len(refused))
	}
}

func TestHealthService(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	for _, service := range []string{"", "spokewire.cloudevents.v1.Broker"} {
		response, err := healthv1.NewHealthClient(rawClient(t, addr)).Check(t.Context(),
			&healthv1.HealthCheckRequest{Service: service})
		if err != nil || response.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("service %q: %v, %v", service, response, err)
		}
	}
}

// TestConnectionsAreLimited checks that a new client replaces a connection of a client with more.
func TestConnectionsAreLimited(t *testing.T) {
	s := newSecure(t)
	limited := newServer(t, grpc.ServerOptions{
		CertFile: filepath.Join(s.folder, "server.crt"), KeyFile: filepath.Join(s.folder, "server.key"),
		ClientCAFile: s.caFile, MaxConnections: 3,
	})
	s.addr, _ = serve(t, limited, "")
	greedy := newTransport(t, s.options(t, s.ca.Issue(t, "greedy")))
	conns := []cloudevents.Conn{connect(t, greedy, nil), connect(t, greedy, nil), connect(t, greedy, nil)}
	connect(t, newTransport(t, s.options(t, s.ca.Issue(t, "modest"))), nil)
	waitFor(t, "the end of a connection", func() bool {
		return slices.ContainsFunc(conns, func(c cloudevents.Conn) bool { return c.Err() != nil })
	})
}

// TestDeadLinkEndsConnection checks that the client of each service detects a link that is open and
// silent.
func TestDeadLinkEndsConnection(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	conns := map[string]cloudevents.Conn{}
	for service, addr := range map[string]string{"own": addr, "OCM": serveOCM(t, newServer(t, grpc.ServerOptions{}))} {
		proxy := tcpproxy.Start(t, addr)
		transport := newTransport(t, grpc.Options{Address: proxy.Addr(), Insecure: true, KeepAlive: 10 * time.Second})
		conns[service] = connect(t, transport, nil, codec.ManifestBundle.AgentFilters("c1")...)
		proxy.Stall()
	}
	for service, conn := range conns {
		select {
		case <-conn.Done():
		case <-time.After(patience):
			t.Fatalf("service %s: the connection did not end", service)
		}
		if status.Code(conn.Err()) != codes.Unavailable {
			t.Errorf("service %s: the connection ended with %v, want Unavailable", service, conn.Err())
		}
	}
}

func TestReflectionService(t *testing.T) {
	addr, _ := serve(t, newServer(t, grpc.ServerOptions{}), "")
	stream, err := reflectionv1.NewServerReflectionClient(rawClient(t, addr)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	symbol := &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "spokewire.cloudevents.v1.Broker",
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: symbol}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil || len(response.GetFileDescriptorResponse().GetFileDescriptorProto()) != 1 {
		t.Errorf("got %v and %v, want the file of the service", response, err)
	}
}
