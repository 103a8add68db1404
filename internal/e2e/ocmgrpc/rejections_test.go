// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
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
	return &caller{pbv1.NewCloudEventServiceClient(conn), token}
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

// TestOCMServerRejects records the status codes of OCM's server for bad input.
func TestOCMServerRejects(t *testing.T) {
	hub := ocmgrpc.StartHub(t, cluster, other)
	server := hub.StartServer()
	group := "system:open-cluster-management:" + cluster
	agent := call(t, server.Addr(), hub.CA, hub.Identity(cluster), "")
	token, revoke := hub.Token(cluster)
	bearer := call(t, server.Addr(), hub.CA, nil, token)
	anonymous := call(t, server.Addr(), hub.CA, nil, "")
	unnamed := call(t, server.Addr(), hub.CA, hub.CA.IssueFor(t, "", group), "")
	blank := call(t, server.Addr(), hub.CA, hub.CA.IssueFor(t, ""), "")
	expired := call(t, server.Addr(), hub.CA, hub.CA.IssueUntil(t, group+":agent1", time.Now().Add(-time.Minute)), "")
	foreign := call(t, server.Addr(), hub.CA, certtest.New(t).IssueFor(t, group+":agent1", group), "")
	empty := struct{}{}

	for _, c := range []struct {
		name string
		err  error
		code codes.Code
		text string
	}{
		{"certificate", agent.subscribe(t, cluster, works), codes.OK, ""},
		{"certificate without a name", unnamed.subscribe(t, cluster, works), codes.OK, ""},
		{"certificate without a name and groups", blank.subscribe(t, cluster, works), codes.PermissionDenied, "at least one of"},
		{"expired certificate", expired.subscribe(t, cluster, works), codes.Unavailable, ""},
		{"certificate of another authority", foreign.subscribe(t, cluster, works), codes.Unavailable, ""},
		{"no credentials", anonymous.subscribe(t, cluster, works), codes.Unauthenticated, "could not verify peer certificate"},
		{"token", bearer.subscribe(t, cluster, works), codes.OK, ""},
		{"another cluster", agent.subscribe(t, other, works), codes.PermissionDenied, "is not allowed"},
		{"no cluster", agent.subscribe(t, "", works), codes.PermissionDenied, "is not allowed"},
		{"unknown data type", agent.subscribe(t, cluster, "a.b.c"), codes.PermissionDenied, "unsupported event type"},
		{"malformed data type", agent.subscribe(t, cluster, "a"), codes.PermissionDenied, "unsupported cloudevents data type"},
		{"resync", agent.publish(t, resync, cluster, empty), codes.OK, ""},
		{"resync with a token", bearer.publish(t, resync, cluster, empty), codes.OK, ""},
		{"resync of another cluster", agent.publish(t, resync, other, empty), codes.PermissionDenied, "is not allowed"},
		{"event without a cluster", agent.publish(t, resync, "", empty), codes.Unknown, "failed to get clustername"},
		{"event of an unknown type", agent.publish(t, "a.b.c.spec.create_request", cluster, empty), codes.PermissionDenied,
			"unsupported event type"},
		{"event of a malformed type", agent.publish(t, "a", cluster, empty), codes.Unknown, "unsupported"},
		{"answer to a resync", agent.publish(t, works+".status.resync_response", cluster, empty), codes.PermissionDenied,
			"unsupported action"},
		{"spec from an agent", agent.publish(t, works+".spec.create_request", cluster, empty), codes.PermissionDenied,
			"is not allowed"},
		{"status without a version", agent.publish(t, report, cluster, empty), codes.FailedPrecondition, "{}"},
		{"resync with a list", agent.publish(t, resync, cluster, []string{}), codes.PermissionDenied, "cannot unmarshal"},
		{"event over the limit", agent.publish(t, report, cluster, strings.Repeat("a", 4<<20)), codes.ResourceExhausted,
			"larger than max"},
	} {
		got := status.Convert(c.err)
		if got.Code() != c.code || !strings.Contains(got.Message(), c.text) {
			t.Errorf("%s: %v %q; want %v %q", c.name, got.Code(), got.Message(), c.code, c.text)
		}
		t.Logf("%s: %v %q", c.name, got.Code(), got.Message())
	}
	revoke()
	e2etest.Eventually(t, "the token ends", func() error {
		got := status.Convert(bearer.subscribe(t, cluster, works))
		if got.Code() != codes.Unauthenticated || got.Message() != "could not verify peer certificate" {
			return fmt.Errorf("%v %q", got.Code(), got.Message())
		}
		return nil
	})
}
