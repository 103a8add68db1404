// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"context"
	"fmt"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	// workBytes is the memory of all running calls, in addition to requests and answers.
	workBytes = 256 << 20
	// readBytes is the memory of a call that reads an app context: one of a client, two in total.
	readBytes = workBytes / 2
	// smallRequest is the size of a request that needs no turn. Only a Create, and an Enqueue with
	// a rollout, may be larger.
	smallRequest = 64 << 10
	// largeRequest is the size above which a Create has its client's share of the memory.
	largeRequest = 1 << 20
	// A Create needs createFactor bytes for each byte, and partBytes for each part.
	createFactor, partBytes = 7, 512
	maxParts                = 1 << 18 // messages and list elements in a request
)

// requests registers services, and counts requests before decoding: 2 bytes may need 100 bytes.
type requests struct {
	grpc.ServiceRegistrar
	service *service
}

// RegisterService implements [grpc.ServiceRegistrar].
func (r requests) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	counted := *desc
	counted.Methods = slices.Clone(desc.Methods)
	for i := range counted.Methods {
		handle := desc.Methods[i].Handler
		counted.Methods[i].Handler = func(
			server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (any, error) {
			end := func() {}
			defer func() { end() }()
			return handle(server, ctx, func(message any) error {
				encoded := &request{ListRequest: &rsyncv1.ListRequest{}}
				defer encoded.free()
				err := decode(encoded)
				if err == nil {
					end, err = r.service.decode(ctx, encoded, message.(proto.Message))
				}
				return err
			}, interceptor)
		}
	}
	r.ServiceRegistrar.RegisterService(&counted, implementation)
}

// request is an encoded request. Codecs of servers other than [Server] store it as unknown fields
// of a message without fields.
type request struct {
	*rsyncv1.ListRequest
	parts mem.BufferSlice
}

func (r *request) size() int { return r.parts.Len() + len(r.ProtoReflect().GetUnknown()) }

func (r *request) bytes() []byte {
	if r.parts == nil {
		return r.ProtoReflect().GetUnknown()
	}
	whole := r.parts.MaterializeToBuffer(mem.DefaultBufferPool())
	r.parts.Free()
	r.parts = mem.BufferSlice{whole}
	return whole.ReadOnlyData()
}

func (r *request) free() { r.parts.Free() }

// codec leaves requests encoded, and shares the manifests of large answers.
type codec struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	if m, ok := message.(*rsyncv1.GetAppContextResponse); ok {
		return encodeShared(m)
	}
	return c.CodecV2.Marshal(message)
}

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	if r, ok := into.(*request); ok {
		data.Ref()
		r.parts = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, into)
}

// decode decodes a request. A large request waits for its turn, which lasts until end is called.
func (s *service) decode(ctx context.Context, r *request, into proto.Message) (end func(), err error) {
	end = func() {}
	defer func() {
		if err != nil {
			end()
			end, err = func() {}, toStatus(err)
		}
	}()
	if limit := requestLimit(into); r.size() > limit {
		return end, fmt.Errorf("%w: the request has %d bytes, the limit is %d", store.ErrTooLarge, r.size(), limit)
	}
	if r.size() > largeRequest {
		if end, err = s.turns.Take(ctx, clientIn(ctx), workBytes); err != nil {
			return func() {}, err
		}
	}
	data := r.bytes()
	n := parts(data, into.ProtoReflect().Descriptor(), maxParts)
	if n > maxParts {
		return end, fmt.Errorf("%w: the request has more than %d parts", store.ErrTooLarge, maxParts)
	}
	if size := createFactor*len(data) + n*partBytes; len(data) <= largeRequest && size > smallRequest {
		if end, err = s.turns.Take(ctx, clientIn(ctx), size); err != nil {
			return func() {}, err
		}
	}
	if err := proto.Unmarshal(data, into); err != nil {
		return end, fmt.Errorf("%w: %w", rsync.ErrInvalidInput, err)
	}
	return end, nil
}

// requestLimit returns the maximum size of a request. The server limits the size of a Create.
func requestLimit(message proto.Message) int {
	switch message.(type) {
	case *rsyncv1.CreateRequest:
		return math.MaxInt
	case *rsyncv1.EnqueueRequest:
		return largeRequest
	}
	return smallRequest
}

// parts counts the messages and list elements in an encoded message, until it is above a limit.
func parts(data []byte, desc protoreflect.MessageDescriptor, limit int) (n int) {
	for len(data) > 0 && n <= limit {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return n // it cannot be decoded
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(number, kind, data); size < 0 {
			return n
		}
		field := desc.Fields().ByNumber(number)
		if field != nil && (field.IsList() || field.Message() != nil) {
			n++
		}
		if field != nil && field.Message() != nil && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(data)
			n += parts(content, field.Message(), limit-n)
		}
		data = data[size:]
	}
	return n
}

// clientIn returns the name by which the client of a call is counted.
func clientIn(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return clientOf(p.AuthInfo, p.Addr)
}
