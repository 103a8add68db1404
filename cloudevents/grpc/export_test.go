// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"errors"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// ErrCut is the end of connections by Cut.
var ErrCut = errors.New("the test cut the connection")

// Cut ends all subscriptions.
func (s *Server) Cut() { s.broker.Cut(ErrCut) }

// PublishRaw delivers bytes as an event, without a check.
func (s *Server) PublishRaw(topic string, event []byte) error {
	return s.broker.Publish("", grpcwire.Message{Topic: topic, Event: event})
}

// SetStall changes the time after which a subscriber with a full queue ends. Call it first.
func (s *Server) SetStall(d time.Duration) {
	limits := s.options.limits()
	limits.Stall = d
	s.broker = broker.New(limits)
}

// Describe returns the access to a topic or a topic filter.
func Describe(topic string, write bool) Access {
	a := Access{Write: write}
	a.describe(strings.Split(topic, "/"))
	return a
}

// ConnectMethod is the method of the own profile, and ConnectStream its description.
const ConnectMethod = connectMethod

var ConnectStream = &connectStream
