// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Encoder is a message that encodes itself, such as a frame.
type Encoder interface{ Encode() mem.BufferSlice }

// Decoder is a message that decodes itself. It may refer to b afterwards.
type Decoder interface{ Decode(b []byte) error }

// Raw is a message in protobuf that is passed on unchanged, such as an event for a plain
// subscriber.
type Raw []byte

// Encode implements [Encoder].
func (r *Raw) Encode() mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(*r)} }

// Decode implements [Decoder].
func (r *Raw) Decode(b []byte) error {
	*r = b
	return nil
}

// buffers are for frames. gRPC's pool would clear 1 MiB for a frame of 64 KiB.
var buffers = mem.NewTieredBufferPool(2<<10, 8<<10, 32<<10, 128<<10)

// Codec encodes Encoders and Decoders, and all other messages with protobuf's codec.
type Codec struct{ fallback encoding.CodecV2 }

// NewCodec returns a codec.
func NewCodec() Codec { return Codec{fallback: encoding.GetCodecV2(proto.Name)} }

// Name implements [encoding.CodecV2].
func (Codec) Name() string { return proto.Name }

// Marshal implements [encoding.CodecV2].
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(Encoder); ok {
		return e.Encode(), nil
	}
	return c.fallback.Marshal(v)
}

// Unmarshal implements [encoding.CodecV2]. It stores the error of a message with the field Malformed
// there: gRPC would end the call with the code Internal.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.decode(data, v)
	if err == nil {
		return nil
	}
	switch m := v.(type) {
	case *ClientFrame:
		m.Malformed = fmt.Errorf("decode the frame: %w", err)
	case *SubscriptionRequest:
		m.Malformed = fmt.Errorf("decode the subscription: %w", err)
	default:
		return err
	}
	return nil
}

func (c Codec) decode(data mem.BufferSlice, v any) error {
	switch d := v.(type) {
	case *ClientFrame, *ServerFrame:
		if data.Len() <= copiedFrame {
			b := data.MaterializeToBuffer(buffers)
			defer b.Free()
			return d.(Decoder).Decode(b.ReadOnlyData())
		}
	case *SubscriptionRequest:
		if n := data.Len(); n > largestSubscription {
			return fmt.Errorf("%d bytes: must have at most %d bytes", n, largestSubscription)
		}
	case Decoder:
	default:
		return c.fallback.Unmarshal(data, v)
	}
	return v.(Decoder).Decode(data.Materialize()) // a copy: gRPC uses its buffers again
}
