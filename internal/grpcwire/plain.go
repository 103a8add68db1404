// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"bytes"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// PublishRequest is the request of CloudEventService.Publish. Event is nil if the request has none.
type PublishRequest struct{ Event []byte }

// Encode implements [Encoder].
func (r *PublishRequest) Encode() mem.BufferSlice {
	head := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(len(r.Event)))
	return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(r.Event)}
}

// Decode implements [Decoder].
func (r *PublishRequest) Decode(b []byte) error {
	err := fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		if field == 1 {
			r.Event = v
		}
		return nil
	})
	if len(b) > len(r.Event)+maxHead { // unknown fields: the event must not keep their memory
		r.Event = bytes.Clone(r.Event)
	}
	return err
}

// maxHead is the largest size of the tag and length of an event.
const maxHead = 1 + 10

// SubscriptionRequest is the request of CloudEventService.Subscribe.
type SubscriptionRequest struct {
	Source, ClusterName, DataType string
	Malformed                     error // of a received request; the other fields are then incomplete
}

// largestSubscription is the size in bytes of the largest SubscriptionRequest that is decoded.
const largestSubscription = 16 << 10

// Encode implements [Encoder].
func (r *SubscriptionRequest) Encode() mem.BufferSlice {
	var b []byte
	for i, s := range []string{r.Source, r.ClusterName, r.DataType} {
		if s != "" {
			b = appendString(b, protowire.Number(i+1), s) //nolint:gosec // 1 to 3
		}
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}
}

// Decode implements [Decoder].
func (r *SubscriptionRequest) Decode(b []byte) error {
	return fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		switch field {
		case 1:
			r.Source = string(v)
		case 2:
			r.ClusterName = string(v)
		case 3:
			r.DataType = string(v)
		}
		return nil
	})
}
