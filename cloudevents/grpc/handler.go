// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/broker"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

const (
	// mostUncommitted bounds the number of messages for one Commit, and longestUncommitted its time:
	// until then they are not acknowledged.
	mostUncommitted    = 256
	longestUncommitted = time.Second
	// keptScratch is the largest buffer for encoding, in bytes, that is used again.
	keptScratch = 64 << 10
)

// handle passes messages to the callbacks of a connection, until ctx ends, and clears them. It calls
// acknowledge with the number of messages that are handled. It returns the error of Commit.
func handle(
	ctx context.Context, o *cloudevents.ConnectOptions, batch []grpcwire.Message, acknowledge func(n int),
) error {
	n, began := 0, time.Now()
	for i, m := range batch {
		if ctx.Err() != nil {
			return nil
		}
		batch[i] = grpcwire.Message{}
		if e, err := grpcwire.ParseEvent(m.Event); err != nil {
			o.Refuse(m.Topic, err)
		} else {
			o.Receive(cloudevents.Message{Topic: m.Topic, Event: e})
		}
		n++
		if o.Commit != nil {
			if i < len(batch)-1 && time.Since(began) < longestUncommitted {
				continue
			}
			if err := o.Commit(ctx); err != nil {
				return fmt.Errorf("commit received messages: %w", err)
			}
			began = time.Now()
		}
		acknowledge(n)
		n = 0
	}
	return nil
}

var scratches = sync.Pool{New: func() any { return new([]byte) }}

// encode encodes a message. Errors concern the message alone.
func encode(m cloudevents.Message, limit int) (grpcwire.Message, error) {
	if err := broker.CheckTopic(m.Topic); err != nil {
		return grpcwire.Message{}, err
	}
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	event, err := grpcwire.AppendEvent((*scratch)[:0], m.Event)
	if err != nil {
		return grpcwire.Message{}, fmt.Errorf("publish on topic %q: %w", m.Topic, err)
	}
	encoded := grpcwire.Message{Topic: m.Topic, Event: event}
	if size := encoded.Size(); size > limit {
		return encoded, &cloudevents.TooLargeError{Topic: m.Topic, Size: size, Limit: limit}
	}
	if cap(event) <= keptScratch {
		*scratch = event
		encoded.Event = append(make([]byte, 0, len(event)), event...) // queues count its length
	}
	return encoded, nil
}

// refusal returns the error of a refused publication.
func refusal(m grpcwire.Message, limit int, err error) error {
	err = fmt.Errorf("the server refused a message on topic %q: %w", m.Topic, err)
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unavailable, codes.Aborted:
		return &cloudevents.TemporaryError{Err: err}
	case codes.OutOfRange:
		return &cloudevents.TooLargeError{Topic: m.Topic, Size: m.Size(), Limit: min(limit, m.Size()-1)}
	}
	return err
}

var errClosed = errors.New("the connection was closed")
