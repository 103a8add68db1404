// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// server is a server of OCM's service, and a client of it. It runs in a synctest bubble.
type server struct {
	t      *testing.T
	client ocm.Client
	dial   *bufconn.Listener
	stop   func()

	// publish handles a call of Publish; nil for success.
	publish func(*ce.Event) error
	// subscribe handles a call of Subscribe before its confirmation; nil for success.
	subscribe func(grpcwire.SubscriptionRequest) error
	// unconfirmed omits the confirmation.
	unconfirmed bool

	mu       sync.Mutex
	accepted []*ce.Event
	events   chan *grpcwire.Raw // to the subscriber; closed to end the subscription
}

// run runs a test with a server and closes everything afterwards.
func run(t *testing.T, test func(*testing.T, *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, dial: bufconn.Listen(1 << 20), events: make(chan *grpcwire.Raw)}
		g := grpc.NewServer(grpc.ForceServerCodecV2(grpcwire.NewCodec()), grpc.MaxRecvMsgSize(5<<20))
		g.RegisterService(&grpc.ServiceDesc{
			ServiceName: ocm.Service, HandlerType: (*any)(nil),
			Methods:  []grpc.MethodDesc{{MethodName: "Publish", Handler: publish}},
			Streams:  []grpc.StreamDesc{{StreamName: "Subscribe", Handler: subscribe, ServerStreams: true}},
			Metadata: "",
		}, s)
		served := make(chan error)
		go func() { served <- g.Serve(s.dial) }()
		s.stop = sync.OnceFunc(func() {
			g.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		defer s.stop()
		test(t, s)
	})
}

//nolint:revive // the signature of a handler
func publish(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	s, request := srv.(*server), &grpcwire.PublishRequest{}
	if err := read(request); err != nil {
		return nil, err
	}
	e, err := grpcwire.ParseEvent(request.Event)
	if err == nil && s.publish != nil {
		err = s.publish(e)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, e)
	return &emptypb.Empty{}, ctx.Err()
}

func subscribe(srv any, stream grpc.ServerStream) error {
	s, request := srv.(*server), grpcwire.SubscriptionRequest{}
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	if s.subscribe != nil {
		if err := s.subscribe(request); err != nil {
			return err
		}
	}
	if !s.unconfirmed {
		if err := stream.SendHeader(metadata.Pairs(ocm.HeaderID, "1")); err != nil {
			return err
		}
	}
	for {
		select {
		case e, ok := <-s.events:
			if !ok {
				return nil
			}
			if err := stream.SendMsg(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// send sends an event to the subscriber.
func (s *server) send(e *ce.Event) {
	s.t.Helper()
	b, err := grpcwire.AppendEvent(nil, e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.events <- (*grpcwire.Raw)(&b)
}

func (s *server) beat() {
	b := grpcwire.Raw(grpcwire.AppendHeartbeat(nil, "1"))
	s.events <- &b
}

// ids returns the IDs of the accepted events.
func (s *server) ids() (ids []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.accepted {
		ids = append(ids, e.ID())
	}
	return ids
}

// receiver has what the callbacks of a connection received.
type receiver struct {
	cloudevents.ConnectOptions
	mu       sync.Mutex
	received []cloudevents.Message
	refused  []error
	denied   []string
	commits  int
	hold     chan struct{} // Receive waits until it is closed; nil for no wait
	failure  error         // of Commit
}

func newReceiver(filters ...string) *receiver {
	r := &receiver{}
	r.ConnectOptions = cloudevents.ConnectOptions{
		Filters: filters,
		Denied:  func(filter string, _ error) { r.denied = append(r.denied, filter) },
		Receive: func(m cloudevents.Message) {
			if r.hold != nil {
				<-r.hold
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.received = append(r.received, m)
		},
		Refuse: func(_ string, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused = append(r.refused, err)
		},
		Commit: func(context.Context) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.commits++
			return r.failure
		},
	}
	return r
}

// connect connects an agent of cluster c.
func (s *server) connect() (cloudevents.Conn, *receiver) {
	s.t.Helper()
	r := newReceiver(codec.ManifestBundle.AgentFilters("c")...)
	conn, err := s.open(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn, r
}

func (s *server) open(r *receiver) (cloudevents.Conn, error) {
	s.t.Helper()
	cc, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(grpcwire.NewCodec())),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.dial.DialContext(ctx) }))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	closed := sync.OnceFunc(func() {
		if err := cc.Close(); err != nil {
			s.t.Error(err)
		}
	})
	conn, err := s.client.Connect(ctx, ocm.Link{Client: cc, Calls: context.Background(), Close: closed}, r.ConnectOptions)
	if err != nil {
		closed()
		return nil, err
	}
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return conn, nil
}
