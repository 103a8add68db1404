// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	ce "github.com/cloudevents/sdk-go/v2/event"
	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// names is a [grpc.TokenAuthenticator]: a token is the name of its user.
type names struct{}

func (names) AuthenticateToken(_ context.Context, token string) (grpc.Identity, error) {
	if token == "expired" {
		return grpc.Identity{}, errors.New("the token has expired")
	}
	return grpc.Identity{User: token}, nil
}

// plainServer is a server and clients of OCM's service. It runs in a synctest bubble.
type plainServer struct {
	*grpc.Server
	t        *testing.T
	listener *bufconn.Listener
	drain    func()
}

// numbered gives each connection an address of its own, as TCP does.
type numbered struct {
	*bufconn.Listener
	count int
}

func (l *numbered) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.count++
	return numberedConn{conn, &net.TCPAddr{Port: l.count}}, err
}

type numberedConn struct {
	net.Conn
	addr net.Addr
}

func (c numberedConn) RemoteAddr() net.Addr { return c.addr }

// withServer runs a test with a server that has the source "hub".
func withServer(t *testing.T, o grpc.ServerOptions, test func(*testing.T, *plainServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Tokens == nil {
			o.Tokens = names{}
		}
		if o.Authorizer == nil {
			o.Authorizer = grpc.AuthorizeNames("hub")
		}
		server, err := grpc.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s := &plainServer{Server: server, t: t, listener: bufconn.Listen(1 << 20)}
		g := gogrpc.NewServer(server.GRPCOptions(insecure.NewCredentials())...)
		s.drain = server.Register(g)
		served := make(chan error)
		go func() { served <- g.Serve(&numbered{Listener: s.listener}) }()
		defer func() {
			g.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		test(t, s)
	})
}

// bearer adds the token of a user to each call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// dial returns a connection of a user; without a token if the user is empty.
func (s *plainServer) dial(user string) *gogrpc.ClientConn {
	s.t.Helper()
	return s.dialWith(user, s.listener.DialContext)
}

func (s *plainServer) dialWith(user string, dial func(context.Context) (net.Conn, error)) *gogrpc.ClientConn {
	s.t.Helper()
	options := []gogrpc.DialOption{
		gogrpc.WithTransportCredentials(insecure.NewCredentials()),
		gogrpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		gogrpc.WithDefaultCallOptions(gogrpc.ForceCodecV2(grpcwire.NewCodec())),
	}
	if user != "" {
		options = append(options, gogrpc.WithPerRPCCredentials(bearer(user)))
	}
	cc, err := gogrpc.NewClient("passthrough:///server", options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// subscription is a stream of events.
type subscription struct {
	gogrpc.ClientStream
	t *testing.T
}

func (s *plainServer) subscribe(user string, r grpcwire.SubscriptionRequest) (*subscription, error) {
	s.t.Helper()
	stream, err := s.dial(user).NewStream(s.t.Context(), &gogrpc.StreamDesc{ServerStreams: true}, ocm.MethodSubscribe)
	if err == nil {
		err = errors.Join(stream.SendMsg(&r), stream.CloseSend())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	header, err := stream.Header()
	if err != nil {
		s.t.Fatal(err)
	}
	if len(header.Get(ocm.HeaderID)) == 0 {
		return nil, stream.RecvMsg(new(grpcwire.Raw))
	}
	return &subscription{stream, s.t}, nil
}

// agent subscribes as the agent of a cluster.
func (s *plainServer) agent(cluster string) *subscription {
	s.t.Helper()
	sub, err := s.subscribe(cluster, grpcwire.SubscriptionRequest{ClusterName: cluster, DataType: ocm.DataType})
	if err != nil {
		s.t.Fatal(err)
	}
	return sub
}

// next returns the next event or the ID of a heartbeat.
func (s *subscription) next() (e *ce.Event, heartbeat bool) {
	s.t.Helper()
	var b grpcwire.Raw
	if err := s.RecvMsg(&b); err != nil {
		s.t.Fatal(err)
	}
	if grpcwire.IsHeartbeat(b) {
		return nil, true
	}
	e, err := grpcwire.ParseEvent(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return e, false
}

func (s *plainServer) publish(user string, r *grpcwire.PublishRequest) error {
	s.t.Helper()
	return s.dial(user).Invoke(s.t.Context(), ocm.MethodPublish, r, new(grpcwire.Raw))
}

func plainEvent(kind, source, cluster, originalSource string) *ce.Event {
	e := ce.New()
	e.SetID("1")
	e.SetType(kind)
	e.SetSource(source)
	e.SetExtension("clustername", cluster)
	e.SetExtension("originalsource", originalSource)
	return &e
}

func encoded(t *testing.T, e *ce.Event) *grpcwire.PublishRequest {
	t.Helper()
	b, err := grpcwire.AppendEvent(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	return &grpcwire.PublishRequest{Event: b}
}

// local is a connection inside the server's process.
type local struct {
	cloudevents.Conn
	mu       sync.Mutex
	received []cloudevents.Message
}

func (s *plainServer) local(filters ...string) *local {
	s.t.Helper()
	l := &local{}
	var err error
	l.Conn, err = s.Transport().Connect(s.t.Context(), cloudevents.ConnectOptions{
		Filters: filters,
		Receive: func(m cloudevents.Message) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.received = append(l.received, m)
		},
		Refuse: func(topic string, err error) { s.t.Errorf("refused on %s: %v", topic, err) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (l *local) topics() (topics []string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.received {
		topics = append(topics, m.Topic)
	}
	return topics
}

func (l *local) send(t *testing.T, topic string, e *ce.Event) error {
	t.Helper()
	var result error
	if err := l.Publish(t.Context(), cloudevents.Message{Topic: topic, Event: e},
		func(err error) { result = err }); err != nil {
		t.Fatal(err)
	}
	return result
}

// serveOCM serves only OCM's service of a server, until the end of the test.
func serveOCM(t *testing.T, server *grpc.Server) (addr string) {
	t.Helper()
	g := gogrpc.NewServer(server.GRPCOptions(insecure.NewCredentials())...)
	grpc.RegisterOCM(server, g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
