// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// TestPlainSubscriptionCodes checks that subscriptions fail with the codes of OCM's server.
func TestPlainSubscriptionCodes(t *testing.T) {
	for _, c := range []struct {
		reason, user string
		request      grpcwire.SubscriptionRequest
		code         codes.Code
		text         string
	}{
		{"agent", "c1", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: ocm.DataType}, codes.OK, ""},
		{"agent with OCM's name", "system:open-cluster-management:c1:a",
			grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: ocm.DataType}, codes.OK, ""},
		{"source", "hub", grpcwire.SubscriptionRequest{Source: "hub", DataType: ocm.DataType}, codes.OK, ""},
		{"another cluster", "c1", grpcwire.SubscriptionRequest{ClusterName: "c2", DataType: ocm.DataType},
			codes.PermissionDenied, "access denied"},
		{"another source", "hub", grpcwire.SubscriptionRequest{Source: "hub2", DataType: ocm.DataType},
			codes.PermissionDenied, "access denied"},
		{"a cluster as a source", "c1", grpcwire.SubscriptionRequest{Source: "c1", DataType: ocm.DataType},
			codes.PermissionDenied, "access denied"},
		{"no names", "c1", grpcwire.SubscriptionRequest{DataType: ocm.DataType}, codes.PermissionDenied, "cluster_name"},
		{"all clusters", "c1", grpcwire.SubscriptionRequest{ClusterName: "+", DataType: ocm.DataType},
			codes.InvalidArgument, "cluster_name"},
		{"unknown data type", "c1", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: "a.b.c"},
			codes.PermissionDenied, "unsupported event type a.b.c"},
		{"malformed data type", "c1", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: "a"},
			codes.PermissionDenied, "unsupported cloudevents data type format"},
		{"long data type", "c1", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: strings.Repeat("a.b.", 2000)},
			codes.PermissionDenied, "unsupported event type a.b."},
		{"long request", "c1", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: strings.Repeat("a.b.", 8<<10)},
			codes.InvalidArgument, "16384 bytes"},
		{"no token", "", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: ocm.DataType}, codes.Unauthenticated, ""},
		{"expired token", "expired", grpcwire.SubscriptionRequest{ClusterName: "c1", DataType: ocm.DataType},
			codes.Unauthenticated, ""},
	} {
		withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
			_, err := s.subscribe(c.user, c.request)
			got := status.Convert(err)
			if got.Code() != c.code || !strings.Contains(got.Message(), c.text) || len(got.Message()) > 600 {
				t.Errorf("%s: %.1000v; want %v %q", c.reason, err, c.code, c.text)
			}
		})
	}
}

// TestPlainPublicationCodes checks that calls of Publish fail with the codes of OCM's server, that
// no client receives their events, and that the topic of an accepted event follows from its attributes.
func TestPlainPublicationCodes(t *testing.T) {
	const works = ocm.DataType
	huge := plainEvent(works+".status.update_request", "a", "c1", "hub")
	huge.DataEncoded = make([]byte, 2<<20)
	for _, c := range []struct {
		reason, user string
		event        *ce.Event // nil for a request without an event
		code         codes.Code
		text         string
		topic        string
	}{
		{"status", "c1", plainEvent(works+".status.update_request", "a", "c1", "hub"), codes.OK, "",
			"sources/hub/clusters/c1/agentevents"},
		{"list", "c1", plainEvent(works+".spec.resync_request", "a", "c1", ""), codes.OK, "", "clusters/c1/agentbroadcast"},
		{"spec", "hub", plainEvent(works+".spec.create_request", "hub", "c2", ""), codes.OK, "",
			"sources/hub/clusters/c2/sourceevents"},
		{"hashes", "hub", plainEvent(works+".status.resync_request", "hub", "", ""), codes.OK, "",
			"sources/hub/sourcebroadcast"},
		{"no event", "c1", nil, codes.InvalidArgument, "no event", ""},
		{"status of another cluster", "c1", plainEvent(works+".status.update_request", "a", "c2", "hub"),
			codes.PermissionDenied, "access denied", ""},
		{"spec from an agent", "c1", plainEvent(works+".spec.create_request", "hub", "c1", ""),
			codes.PermissionDenied, "access denied", ""},
		{"spec of another source", "hub", plainEvent(works+".spec.create_request", "hub2", "c1", ""),
			codes.PermissionDenied, "access denied", ""},
		{"no cluster", "c1", plainEvent(works+".status.update_request", "a", "", "hub"), codes.InvalidArgument,
			"clustername", ""},
		{"no source", "c1", plainEvent(works+".status.update_request", "a", "c1", ""), codes.InvalidArgument,
			"originalsource", ""},
		{"unknown type", "c1", plainEvent("a.b.c.spec.create_request", "a", "c1", ""), codes.PermissionDenied,
			"unsupported", ""},
		{"unknown action", "c1", plainEvent(works+".status.watch_request", "a", "c1", "hub"),
			codes.PermissionDenied, "unsupported action", ""},
		{"no token", "", plainEvent(works+".status.update_request", "a", "c1", "hub"), codes.Unauthenticated, "", ""},
		{"no token and no event", "", nil, codes.Unauthenticated, "", ""},
		{"over the limit", "c1", huge, codes.ResourceExhausted, "larger than max", ""},
	} {
		withServer(t, grpc.ServerOptions{MaxMessageSize: 1 << 20}, func(t *testing.T, s *plainServer) {
			all := s.local("#")
			if c.event == nil {
				empty := grpcwire.Raw{}
				err := s.dial(c.user).Invoke(t.Context(), ocm.MethodPublish, &empty, new(grpcwire.Raw))
				if got := status.Convert(err); got.Code() != c.code || !strings.Contains(got.Message(), c.text) {
					t.Errorf("%s: %v; want %v %q", c.reason, err, c.code, c.text)
				}
				return
			}
			err := s.publish(c.user, encoded(t, c.event))
			if got := status.Convert(err); got.Code() != c.code || !strings.Contains(got.Message(), c.text) {
				t.Errorf("%s: %v; want %v %q", c.reason, err, c.code, c.text)
			}
			if got := strings.Join(all.topics(), " "); got != c.topic {
				t.Errorf("%s: published on %q, want %q", c.reason, got, c.topic)
			}
		})
	}
}

func TestPlainPublicationOfNoEvent(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		for _, b := range []string{"", "x", "ce-id"} {
			err := s.publish("c1", &grpcwire.PublishRequest{Event: []byte(b)})
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("event %q: %v", b, err)
			}
		}
		malformed := grpcwire.Raw{0xff}
		if err := s.dial("c1").Invoke(t.Context(), ocm.MethodPublish, &malformed, new(grpcwire.Raw)); err == nil {
			t.Error("a malformed request was accepted")
		}
	})
}

// TestPlainSubscriberReceivesItsCluster checks that a subscriber receives the events of its cluster,
// and between them a heartbeat every 10 s.
func TestPlainSubscriberReceivesItsCluster(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		sub, hub := s.agent("c1"), s.local()
		for i, cluster := range []string{"c2", "c1", "c2", "c1"} {
			e := plainEvent(ocm.DataType+".spec.create_request", "hub", cluster, "")
			e.SetID(fmt.Sprint(i))
			e.SetExtension("resourceversion", 7)
			if err := hub.send(t, "sources/hub/clusters/"+cluster+"/sourceevents", e); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"1", "3"} {
			if e, _ := sub.next(); e == nil || e.ID() != want || e.Extensions()["resourceversion"] != "7" {
				t.Errorf("received %v, want event %s", e, want)
			}
		}
		begin := time.Now()
		for i := range 3 {
			_, heartbeat := sub.next()
			if passed := time.Since(begin); !heartbeat || passed != time.Duration(i+1)*10*time.Second {
				t.Errorf("heartbeat %v after %v", heartbeat, passed)
			}
		}
	})
}

// TestPlainSubscriberThatDoesNotRead checks that a slow subscriber ends with ResourceExhausted and
// delays no other cluster.
func TestPlainSubscriberThatDoesNotRead(t *testing.T) {
	withServer(t, grpc.ServerOptions{MaxQueueBytes: 1 << 20}, func(t *testing.T, s *plainServer) {
		slow, other, hub := s.agent("c1"), s.agent("c2"), s.local()
		e := plainEvent(ocm.DataType+".spec.create_request", "hub", "c1", "")
		e.DataEncoded = make([]byte, 256<<10)
		var refusal error
		for i := 0; i < 100 && refusal == nil; i++ {
			refusal = hub.send(t, "sources/hub/clusters/c1/sourceevents", e)
			synctest.Wait()
		}
		var temporary *cloudevents.TemporaryError
		if !errors.As(refusal, &temporary) {
			t.Fatalf("a full queue: %v", refusal)
		}
		if err := hub.send(t, "sources/hub/clusters/c2/sourceevents",
			plainEvent(ocm.DataType+".spec.create_request", "hub", "c2", "")); err != nil {
			t.Fatal(err)
		}
		if e, _ := other.next(); e == nil {
			t.Error("the other cluster received a heartbeat")
		}
		time.Sleep(time.Minute)
		var err error
		for err == nil {
			err = slow.RecvMsg(new(grpcwire.Raw))
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		if err := hub.send(t, "sources/hub/clusters/c1/sourceevents", e); err != nil {
			t.Errorf("after the end of the subscriber: %v", err)
		}
	})
}

// TestPlainSubscriptionHasNoGap checks that an event that is published after the confirmation of a
// subscription arrives.
func TestPlainSubscriptionHasNoGap(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		hub := s.local()
		for i := range 100 {
			sub := s.agent(fmt.Sprint("c", i))
			topic := fmt.Sprintf("sources/hub/clusters/c%d/sourceevents", i)
			if err := hub.send(t, topic, plainEvent(ocm.DataType+".spec.create_request", "hub", fmt.Sprint("c", i),
				"")); err != nil {
				t.Fatal(err)
			}
			if e, _ := sub.next(); e == nil {
				t.Fatal("the first message is a heartbeat")
			}
		}
	})
}

// TestPlainRequestsInPart checks that a request that is not sent delays no other, and ends.
func TestPlainRequestsInPart(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		all, cc := s.local("#"), s.dial("c1")
		var open []gogrpc.ClientStream
		for range 10 {
			stream, err := cc.NewStream(t.Context(), &gogrpc.StreamDesc{}, ocm.MethodPublish)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, stream)
		}
		synctest.Wait()
		request := encoded(t, plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub"))
		if err := cc.Invoke(t.Context(), ocm.MethodPublish, request, new(grpcwire.Raw)); err != nil {
			t.Errorf("from the same connection: %v", err)
		}
		if err := s.publish("c1", request); err != nil {
			t.Errorf("from another connection: %v", err)
		}
		if got := all.topics(); len(got) != 2 {
			t.Errorf("received %d events, want 2", len(got))
		}
		for _, stream := range open {
			if err := stream.RecvMsg(new(grpcwire.Raw)); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("a call without a request ended with %v, want DeadlineExceeded", err)
			}
		}
	})
}

// TestPlainClientsAtShutdown checks that a subscriber receives queued events before it ends, that a
// publication without its request ends at once, and that events are not accepted any more.
func TestPlainClientsAtShutdown(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		sub, hub := s.agent("c1"), s.local()
		incomplete, err := s.dial("c1").NewStream(t.Context(), &gogrpc.StreamDesc{}, ocm.MethodPublish)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin := time.Now()
		for range 3 {
			if err := hub.send(t, "sources/hub/clusters/c1/sourceevents",
				plainEvent(ocm.DataType+".spec.create_request", "hub", "c1", "")); err != nil {
				t.Fatal(err)
			}
		}
		s.drain()
		if passed := time.Since(begin); passed != 0 {
			t.Errorf("the shutdown took %v", passed)
		}
		if err := incomplete.RecvMsg(new(grpcwire.Raw)); status.Code(err) != codes.Unavailable {
			t.Errorf("the incomplete publication: %v", err)
		}
		for range 3 {
			if e, _ := sub.next(); e == nil {
				t.Error("received a heartbeat before the queued events")
			}
		}
		if err := sub.RecvMsg(new(grpcwire.Raw)); status.Code(err) != codes.Unavailable {
			t.Errorf("the subscription: %v", err)
		}
		request := encoded(t, plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub"))
		if err := s.publish("c1", request); status.Code(err) != codes.Unavailable {
			t.Errorf("a publication: %v", err)
		}
	})
}

// TestPlainClient connects the client of OCM's service to the server.
func TestPlainClient(t *testing.T) {
	withServer(t, grpc.ServerOptions{}, func(t *testing.T, s *plainServer) {
		hub := s.local(codec.ManifestBundle.SourceFilters("hub")...)
		var client ocm.Client
		received := make(chan cloudevents.Message, 1)
		link := ocm.Link{Client: s.dial("c1"), Calls: context.Background(), Close: func() {}}
		conn, err := client.Connect(t.Context(), link, cloudevents.ConnectOptions{
			Filters: codec.ManifestBundle.AgentFilters("c1"),
			Receive: func(m cloudevents.Message) { received <- m },
			Refuse:  func(topic string, err error) { t.Errorf("refused on %s: %v", topic, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		topic := "sources/hub/clusters/c1/sourceevents"
		if err := hub.send(t, topic, plainEvent(ocm.DataType+".spec.create_request", "hub", "c1", "")); err != nil {
			t.Fatal(err)
		}
		if m := <-received; m.Topic != topic {
			t.Errorf("received on %s", m.Topic)
		}
		time.Sleep(time.Hour) // heartbeats keep the connection
		answer := "sources/hub/clusters/c1/agentevents"
		var result error
		if err := conn.Publish(t.Context(), cloudevents.Message{Topic: answer,
			Event: plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub")},
			func(err error) { result = err }); err != nil {
			t.Fatal(err)
		}
		if got := hub.topics(); len(got) != 1 || got[0] != answer || result != nil || conn.Err() != nil {
			t.Errorf("the hub received %q; %v, %v", got, result, conn.Err())
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestTransportUsesOCMsService connects a transport to a server that has only OCM's service, over
// TCP: each subscription and token works as on the server's own service, and events may be longer
// than gRPC's default limit.
func TestTransportUsesOCMsService(t *testing.T) {
	server, err := grpc.NewServer(grpc.ServerOptions{Insecure: true, Tokens: names{},
		Authorizer: grpc.AuthorizeNames("hub")})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveOCM(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	connect := func(user string, filters ...string) (cloudevents.Conn, chan cloudevents.Message, error) {
		transport, err := grpc.New(grpc.Options{Address: addr, Insecure: true, Token: user})
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan cloudevents.Message, 1)
		conn, err := transport.Connect(ctx, cloudevents.ConnectOptions{
			Filters:  filters,
			Optional: []string{codec.ManifestBundle.PresenceFilter(user, user)},
			Denied:   func(string, error) {},
			Receive:  func(m cloudevents.Message) { received <- m },
			Refuse:   func(topic string, err error) { t.Errorf("refused on %s: %v", topic, err) },
		})
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return conn, received, err
	}
	hub, statuses, err := connect("hub", codec.ManifestBundle.SourceFilters("hub")...)
	if err != nil {
		t.Fatal(err)
	}
	agent, specs, err := connect("c1", codec.ManifestBundle.AgentFilters("c1")...)
	if err != nil {
		t.Fatal(err)
	}
	var permanent *cloudevents.PermanentError
	if _, _, err := connect("c2", codec.ManifestBundle.AgentFilters("c1")...); !errors.As(err, &permanent) {
		t.Errorf("another cluster: %v", err)
	}
	for _, c := range []struct {
		from, to string
		conn     cloudevents.Conn
		received chan cloudevents.Message
		m        cloudevents.Message
	}{
		{"hub", "agent", hub, specs, cloudevents.Message{Topic: "sources/hub/clusters/c1/sourceevents",
			Event: plainEvent(ocm.DataType+".spec.create_request", "hub", "c1", "")}},
		{"agent", "hub", agent, statuses, cloudevents.Message{Topic: "sources/hub/clusters/c1/agentevents",
			Event: plainEvent(ocm.DataType+".status.update_request", "a", "c1", "hub")}},
	} {
		c.m.Event.DataEncoded = make([]byte, 6<<20)
		acknowledged := make(chan error, 1)
		if err := c.conn.Publish(ctx, c.m, func(err error) { acknowledged <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-acknowledged; err != nil {
			t.Errorf("from %s: %v", c.from, err)
		}
		if m := <-c.received; m.Topic != c.m.Topic || len(m.Event.Data()) != 6<<20 {
			t.Errorf("%s received %d bytes on %s", c.to, len(m.Event.Data()), m.Topic)
		}
	}
}
