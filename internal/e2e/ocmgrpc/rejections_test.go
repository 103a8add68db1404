// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"

	spokegrpc "github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

const (
	works  = "io.open-cluster-management.works.v1alpha1.manifestbundles"
	resync = works + ".spec.resync_request"
	report = works + ".status.update_request"
	other  = "cluster2"
)

// caller calls a gRPC server with a certificate, a token, or neither.
type caller struct {
	pbv1.CloudEventServiceClient
	conn  *grpc.ClientConn
	token string
}

func call(t *testing.T, addr string, ca *certtest.Authority, identity *certtest.Identity, token string) *caller {
	t.Helper()
	config := &tls.Config{RootCAs: ca.Pool()}
	if identity != nil {
		config.Certificates = []tls.Certificate{identity.Certificate}
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{pbv1.NewCloudEventServiceClient(conn), conn, token}
}

func (c *caller) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Patience)
	t.Cleanup(cancel)
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	return ctx
}

// subscribe returns nil when the server accepts the subscription.
func (c *caller) subscribe(t *testing.T, cluster, kind string) error {
	t.Helper()
	stream, err := c.Subscribe(c.context(t), &pbv1.SubscriptionRequest{ClusterName: cluster, DataType: kind})
	if err != nil {
		return err
	}
	header, err := stream.Header()
	if err != nil {
		return err
	}
	if len(header.Get("subscription-id")) == 1 {
		return nil
	}
	_, err = stream.Recv()
	return err
}

// publish publishes an event of a cluster.
func (c *caller) publish(t *testing.T, kind, cluster string, data any, attributes ...string) error {
	t.Helper()
	content, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	event := &pbv1.CloudEvent{Id: "1", Source: "agent", SpecVersion: "1.0", Type: kind,
		Data:       &pbv1.CloudEvent_BinaryData{BinaryData: content},
		Attributes: map[string]*pbv1.CloudEventAttributeValue{"contenttype": text("application/json")}}
	if cluster != "" {
		event.Attributes["ce-clustername"] = text(cluster)
	}
	for i := 0; i < len(attributes); i += 2 {
		event.Attributes["ce-"+attributes[i]] = text(attributes[i+1])
	}
	_, err = c.Publish(c.context(t), &pbv1.PublishRequest{Event: event})
	return err
}

func text(value string) *pbv1.CloudEventAttributeValue {
	return &pbv1.CloudEventAttributeValue{Attr: &pbv1.CloudEventAttributeValue_CeString{CeString: value}}
}

// callers are the clients of one server.
type callers struct {
	t                                                          *testing.T
	agent, bearer, anonymous, unnamed, blank, expired, foreign *caller
}

func newCallers(t *testing.T, addr string, ca *certtest.Authority, token string) callers {
	t.Helper()
	group := "system:open-cluster-management:" + cluster
	name := group + ":agent1"
	return callers{
		t:         t,
		agent:     call(t, addr, ca, ca.IssueFor(t, name, group), ""),
		bearer:    call(t, addr, ca, nil, token),
		anonymous: call(t, addr, ca, nil, ""),
		unnamed:   call(t, addr, ca, ca.IssueFor(t, "", group), ""),
		blank:     call(t, addr, ca, ca.IssueFor(t, ""), ""),
		expired:   call(t, addr, ca, ca.IssueUntil(t, name, time.Now().Add(-time.Minute)), ""),
		foreign:   call(t, addr, ca, certtest.New(t).IssueFor(t, name, group), ""),
	}
}

// rejections are calls with bad input, each with the status code of OCM's server, a part of its
// message, and the code of the server of this SDK.
var rejections = []struct {
	name   string
	call   func(c callers) error
	theirs codes.Code
	text   string
	ours   codes.Code
}{
	{"certificate", func(c callers) error { return c.agent.subscribe(c.t, cluster, works) }, codes.OK, "", codes.OK},
	// The default authorizer of this SDK uses no groups.
	{"certificate without a name", func(c callers) error { return c.unnamed.subscribe(c.t, cluster, works) },
		codes.OK, "", codes.PermissionDenied},
	{"certificate without a name and groups", func(c callers) error { return c.blank.subscribe(c.t, cluster, works) },
		codes.PermissionDenied, "at least one of", codes.PermissionDenied},
	{"expired certificate", func(c callers) error { return c.expired.subscribe(c.t, cluster, works) },
		codes.Unavailable, "", codes.Unavailable},
	{"certificate of another authority", func(c callers) error { return c.foreign.subscribe(c.t, cluster, works) },
		codes.Unavailable, "", codes.Unavailable},
	{"no credentials", func(c callers) error { return c.anonymous.subscribe(c.t, cluster, works) },
		codes.Unauthenticated, "could not verify peer certificate", codes.Unauthenticated},
	{"token", func(c callers) error { return c.bearer.subscribe(c.t, cluster, works) }, codes.OK, "", codes.OK},
	{"another cluster", func(c callers) error { return c.agent.subscribe(c.t, other, works) },
		codes.PermissionDenied, "is not allowed", codes.PermissionDenied},
	{"no cluster", func(c callers) error { return c.agent.subscribe(c.t, "", works) },
		codes.PermissionDenied, "is not allowed", codes.PermissionDenied},
	{"unknown data type", func(c callers) error { return c.agent.subscribe(c.t, cluster, "a.b.c") },
		codes.PermissionDenied, "unsupported event type", codes.PermissionDenied},
	{"malformed data type", func(c callers) error { return c.agent.subscribe(c.t, cluster, "a") },
		codes.PermissionDenied, "unsupported cloudevents data type", codes.PermissionDenied},
	{"resync", func(c callers) error { return c.agent.publish(c.t, resync, cluster, object) }, codes.OK, "", codes.OK},
	{"resync with a token", func(c callers) error { return c.bearer.publish(c.t, resync, cluster, object) },
		codes.OK, "", codes.OK},
	{"resync of another cluster", func(c callers) error { return c.agent.publish(c.t, resync, other, object) },
		codes.PermissionDenied, "is not allowed", codes.PermissionDenied},
	// The metrics of OCM's server parse an event before its service does.
	{"event without a cluster", func(c callers) error { return c.agent.publish(c.t, resync, "", object) },
		codes.Unknown, "failed to get clustername", codes.InvalidArgument},
	{"event of a malformed type", func(c callers) error { return c.agent.publish(c.t, "a", cluster, object) },
		codes.Unknown, "unsupported", codes.PermissionDenied},
	{"event of an unknown type",
		func(c callers) error { return c.agent.publish(c.t, "a.b.c.spec.create_request", cluster, object) },
		codes.PermissionDenied, "unsupported event type", codes.PermissionDenied},
	// OCM's server requests no statuses.
	{"answer with a status", func(c callers) error {
		return c.agent.publish(c.t, works+".status.resync_response", cluster, object, "originalsource", "hub")
	}, codes.PermissionDenied, "unsupported action", codes.OK},
	{"spec from an agent",
		func(c callers) error { return c.agent.publish(c.t, works+".spec.create_request", cluster, object) },
		codes.PermissionDenied, "is not allowed", codes.PermissionDenied},
	// A server of this SDK passes the data of events on.
	{"status without a version",
		func(c callers) error { return c.agent.publish(c.t, report, cluster, object, "originalsource", "hub") },
		codes.FailedPrecondition, "{}", codes.OK},
	{"resync with a list", func(c callers) error { return c.agent.publish(c.t, resync, cluster, []string{}) },
		codes.PermissionDenied, "cannot unmarshal", codes.OK},
	{"event of 4 MiB", func(c callers) error {
		return c.agent.publish(c.t, report, cluster, strings.Repeat("a", 4<<20), "originalsource", "hub")
	}, codes.ResourceExhausted, "larger than max", codes.OK},
	{"event of 17 MiB", func(c callers) error {
		return c.agent.publish(c.t, report, cluster, strings.Repeat("a", 17<<20), "originalsource", "hub")
	}, codes.ResourceExhausted, "larger than max", codes.ResourceExhausted},
	{"unknown service", func(c callers) error { return c.agent.unknown(c.t) },
		codes.Unimplemented, "unknown service", codes.Unimplemented},
}

var object = struct{}{}

func (c *caller) unknown(t *testing.T) error {
	return c.conn.Invoke(c.context(t), "/a.b/C", &pbv1.PublishRequest{}, &pbv1.PublishRequest{})
}

// TestOCMServerRejects records the status codes of OCM's server for bad input.
func TestOCMServerRejects(t *testing.T) {
	hub := ocmgrpc.StartHub(t, cluster, other)
	server := hub.StartServer()
	token, revoke := hub.Token(cluster)
	c := newCallers(t, server.Addr(), hub.CA, token)
	for _, r := range rejections {
		got := status.Convert(r.call(c))
		if got.Code() != r.theirs || !strings.Contains(got.Message(), r.text) {
			t.Errorf("%s: %v %q; want %v %q", r.name, got.Code(), got.Message(), r.theirs, r.text)
		}
	}
	revoke()
	e2etest.Eventually(t, "the token ends", func() error {
		got := status.Convert(c.bearer.subscribe(t, cluster, works))
		if got.Code() != codes.Unauthenticated || got.Message() != "could not verify peer certificate" {
			return fmt.Errorf("%v %q", got.Code(), got.Message())
		}
		return nil
	})
}

// token authenticates the agent of a cluster.
type token string

// AuthenticateToken implements [spokegrpc.TokenAuthenticator].
func (k token) AuthenticateToken(_ context.Context, got string) (spokegrpc.Identity, error) {
	if got != string(k) {
		return spokegrpc.Identity{}, errors.New("unknown token")
	}
	return spokegrpc.Identity{User: cluster}, nil
}

// TestServerRejects compares the status codes of the server of this SDK with those of OCM's server.
func TestServerRejects(t *testing.T) {
	hub := startOurHub(t, hubOptions{})
	c := newCallers(t, hub.Addr(), hub.ca, "secret")
	for _, r := range rejections {
		if got := status.Convert(r.call(c)); got.Code() != r.ours {
			t.Errorf("%s: %v %q; want %v", r.name, got.Code(), got.Message(), r.ours)
		}
	}
	revoked := call(t, hub.Addr(), hub.ca, nil, "revoked")
	if err := revoked.subscribe(t, cluster, works); status.Code(err) != codes.Unauthenticated {
		t.Errorf("unknown token: %v", err)
	}
	for code, c := range map[codes.Code]*caller{codes.InvalidArgument: c.agent, codes.Unauthenticated: c.anonymous} {
		if _, err := c.Publish(c.context(t), &pbv1.PublishRequest{}); status.Code(err) != code {
			t.Errorf("request without an event: %v; want %v", err, code)
		}
	}
}
