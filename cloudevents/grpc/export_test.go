// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"errors"

	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// ErrCut is the end of connections by Cut.
var ErrCut = errors.New("the test cut the connection")

// Cut ends all subscriptions.
func (s *Server) Cut() { s.broker.Cut(ErrCut) }

// PublishRaw delivers bytes as an event, without a check.
func (s *Server) PublishRaw(topic string, event []byte) error {
	return s.broker.Publish(grpcwire.Message{Topic: topic, Event: event})
}
