// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// heartbeatInterval is the default of OCM's server.
const heartbeatInterval = 10 * time.Second

// registerOCM adds OCM's service, with the status codes of OCM's server. Publish has one request and
// one response, but its handler is that of a stream: it authenticates the client before it reads the
// request.
func (s *service) registerOCM(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: ocm.Service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "Publish", Handler: handler(s, s.publishOCM)},
			{StreamName: "Subscribe", Handler: handler(s, s.subscribeOCM), ServerStreams: true},
		},
		Metadata: "cloudevent.proto",
	}, s)
}

// publishOCM routes an event by its attributes.
func (s *service) publishOCM(stream grpc.ServerStream, client *clientCheck, r *grpcwire.PublishRequest) error {
	if r.Event == nil {
		return status.Error(codes.InvalidArgument, "the request has no event")
	}
	e, err := grpcwire.ParseEvent(r.Event)
	if err != nil {
		return invalid(err)
	}
	topic, err := ocm.Topic(e)
	switch {
	case errors.Is(err, ocm.ErrType):
		return status.Error(codes.PermissionDenied, cut.Text("access denied: "+err.Error(), longestReason))
	case err != nil:
		return invalid(err)
	}
	err = s.server.publish(client.ctx, client.who, grpcwire.Message{Topic: topic, Event: r.Event})
	if status.Code(err) == codes.OutOfRange {
		limit := s.server.options.MaxMessageSize
		return status.Error(codes.ResourceExhausted, ocm.TooLarge(len(r.Event), limit))
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(new(grpcwire.Raw))
}

// longestReason is the length in bytes up to which a client receives an error about its own message.
const longestReason = 512

// invalid returns the status of a message that is malformed.
func invalid(err error) error {
	return status.Error(codes.InvalidArgument, cut.Text(err.Error(), longestReason))
}

// subscribeOCM serves one subscription. Unlike OCM's server, it confirms the subscription after it has
// added the subscriber.
func (s *service) subscribeOCM(stream grpc.ServerStream, client *clientCheck, r *grpcwire.SubscriptionRequest) error {
	var err error
	if client.filters, err = filtersOCM(*r); err != nil {
		return err
	}
	sub, _, err := s.server.subscribe(client.ctx, client.who, client.filters, nil, 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := stream.SendHeader(metadata.Pairs(ocm.HeaderID, rand.Text())); err != nil {
		return err
	}
	return s.follow(client, sub, func() error { return sendOCM(stream, sub) })
}

func filtersOCM(r grpcwire.SubscriptionRequest) ([]string, error) {
	if r.Malformed != nil {
		return nil, invalid(r.Malformed)
	}
	if r.DataType != ocm.DataType {
		reason := "unsupported event type " + cut.Text(r.DataType, longestReason)
		if strings.Count(r.DataType, ".") < 2 {
			reason = "unsupported cloudevents data type format"
		}
		return nil, status.Error(codes.PermissionDenied, "access denied: "+reason)
	}
	if r.ClusterName == "" && r.Source == "" {
		return nil, status.Error(codes.PermissionDenied, "access denied: the subscription has no cluster_name and no source")
	}
	filters, err := ocm.Filters(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("invalid subscription request: %v", err))
	}
	return filters, nil
}

// sendOCM sends events and heartbeats. A subscriber has no acknowledgements: an event counts as
// delivered when gRPC has accepted it for the link.
func sendOCM(stream grpc.ServerStream, sub *broker.Subscription) error {
	heartbeats := time.NewTicker(heartbeatInterval)
	defer heartbeats.Stop()
	var batch []grpcwire.Message
	for {
		select {
		case <-sub.Wake():
		case <-heartbeats.C:
			beat := grpcwire.Raw(grpcwire.AppendHeartbeat(nil, rand.Text()))
			if err := stream.SendMsg(&beat); err != nil {
				return err
			}
			continue
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		var err error
		if batch, err = sub.Take(batch[:0], frameBytes, frameMessages); err != nil {
			return subscriptionStatus(sub)
		}
		for i := range batch {
			if err := stream.SendMsg((*grpcwire.Raw)(&batch[i].Event)); err != nil {
				return err
			}
			batch[i] = grpcwire.Message{}
			sub.Release(1)
		}
	}
}
