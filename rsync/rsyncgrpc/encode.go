// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// sharedBytes is the size of a byte field that is not copied, and about that of other buffers.
const sharedBytes = 1 << 20

type encoder struct {
	out  mem.BufferSlice
	last []byte // not in out yet
}

// encodeShared encodes a message into buffers that share its large byte fields. The message must
// not change afterwards. One buffer for an answer of 32 MiB would need that much contiguous memory.
func encodeShared(m proto.Message) (mem.BufferSlice, error) {
	e := &encoder{}
	if err := e.message(m.ProtoReflect()); err != nil {
		return nil, err
	}
	e.flush()
	return e.out, nil
}

func (e *encoder) flush() {
	if len(e.last) > 0 {
		e.out = append(e.out, mem.SliceBuffer(e.last))
		e.last = nil
	}
}

func (e *encoder) message(m protoreflect.Message) (err error) {
	if proto.Size(m.Interface()) < sharedBytes {
		if e.last, err = (proto.MarshalOptions{}).MarshalAppend(e.last, m.Interface()); len(e.last) >= sharedBytes {
			e.flush()
		}
		return err
	}
	small := m.New() // with the remaining fields
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			small.Set(field, value)
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				if err = e.child(field, value.List().Get(i).Message()); err != nil {
					break
				}
			}
		case !field.IsList() && field.Message() != nil:
			err = e.child(field, value.Message())
		case !field.IsList() && field.Kind() == protoreflect.BytesKind:
			e.bytes(field, value.Bytes())
		default:
			small.Set(field, value)
		}
		return err == nil
	})
	if err == nil {
		e.last, err = proto.MarshalOptions{}.MarshalAppend(e.last, small.Interface())
	}
	return err
}

func (e *encoder) child(field protoreflect.FieldDescriptor, m protoreflect.Message) error {
	e.last = protowire.AppendTag(e.last, field.Number(), protowire.BytesType)
	e.last = protowire.AppendVarint(e.last, uint64(proto.Size(m.Interface()))) //nolint:gosec // it is not negative
	return e.message(m)
}

func (e *encoder) bytes(field protoreflect.FieldDescriptor, value []byte) {
	e.last = protowire.AppendTag(e.last, field.Number(), protowire.BytesType)
	e.last = protowire.AppendVarint(e.last, uint64(len(value)))
	if len(value) < sharedBytes {
		e.last = append(e.last, value...)
		return
	}
	e.flush()
	e.out = append(e.out, mem.SliceBuffer(value))
}
