// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// Names of OCM's service, its methods, and the response header of a subscription.
const (
	Service         = "io.cloudevents.v1.CloudEventService"
	MethodPublish   = "/" + Service + "/Publish"
	MethodSubscribe = "/" + Service + "/Subscribe"
	HeaderID        = "subscription-id"
)

// LargestMessage is the size in bytes of the largest event that a client sends. OCM's server accepts
// 4 MiB by default.
const LargestMessage = 16 << 20

// Client opens connections to OCM's service. The zero value is ready to use.
type Client struct {
	mu     sync.Mutex
	source string // of the last event about works
}

// Link is an open link to a server.
type Link struct {
	// Client makes calls with the codec of package grpcwire. It receives events of any size, as OCM's
	// server sends them.
	Client grpc.ClientConnInterface
	// Calls is the context of all calls. It may have a token.
	Calls context.Context
	// Close ends the link.
	Close func()
}

// Connect subscribes, and returns when the server has confirmed the subscription or ctx ends. It
// calls Denied for all optional filters: the service has no topics for them. The connection closes
// the link, unless Connect returns an error.
func (c *Client) Connect(ctx context.Context, l Link, o cloudevents.ConnectOptions) (cloudevents.Conn, error) {
	request := &grpcwire.SubscriptionRequest{}
	if len(o.Filters) > 0 {
		var err error
		if *request, err = Subscription(o.Filters); err != nil {
			return nil, &cloudevents.PermanentError{Err: fmt.Errorf(
				"the server has no service spokewire.cloudevents.v1.Broker: check the port; or use OCM's service: %w", err)}
		}
	}
	conn := newConn(c, l, o)
	if len(o.Filters) > 0 {
		if err := conn.subscribe(ctx, request); err != nil {
			conn.end(err)
			return nil, err
		}
		conn.goroutines.Go(conn.read)
		conn.goroutines.Go(conn.receive)
		conn.goroutines.Go(conn.repeatRequests)
	}
	for _, filter := range o.Optional {
		o.Denied(filter, errors.New("the gRPC service of OCM has no such topic"))
	}
	return conn, nil
}

// subscribe opens the stream and waits for the header that confirms it. A server without this header,
// as Maestro's for sources, confirms it with the first event or heartbeat.
func (c *conn) subscribe(ctx context.Context, request *grpcwire.SubscriptionRequest) error {
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	stream, err := c.link.Client.NewStream(c.life, &grpc.StreamDesc{ServerStreams: true}, MethodSubscribe)
	if err == nil {
		err = stream.SendMsg(request)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		return c.subscribeError(ctx, err)
	}
	header, err := stream.Header()
	if err == nil && len(header.Get(HeaderID)) == 0 {
		c.first = new(grpcwire.Raw)
		err = stream.RecvMsg(c.first) // fails if the call has failed
	}
	if err != nil {
		return c.subscribeError(ctx, err)
	}
	if !stop() {
		return c.subscribeError(ctx, ctx.Err())
	}
	c.stream = stream
	if request.ClusterName == "" {
		c.source = request.Source
	}
	return nil
}

func (c *conn) subscribeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gave up waiting for the server to confirm the subscription: %w", ctx.Err())
	}
	return connectError(fmt.Errorf("subscribe: %w", err))
}

// defaultSource is the source of OCM's server.
const defaultSource = "kube"

// sourceOf notes the source of an event about works, and returns the source of e. The answer of OCM's
// server to a list deletes works that do not exist on the hub with events that have only the
// resource ID, from the source "source". All works of a server are from one source, so the deletions
// are from the source of the other events.
func (c *Client) sourceOf(e *ce.Event, source string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	extensions := e.Extensions()
	if source == "source" && extensions[attrDeletion] != nil && extensions[attrMetadata] == nil {
		if c.source == "" {
			return defaultSource
		}
		return c.source
	}
	c.source = source
	return source
}
