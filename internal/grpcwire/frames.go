// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Message is one event on one topic. The event is encoded as io.cloudevents.v1.CloudEvent.
type Message struct {
	Topic string
	Event []byte
}

// Size returns the encoded size of a message in bytes, without the field that contains it.
func (m Message) Size() int {
	return 2 + protowire.SizeBytes(len(m.Topic)) + protowire.SizeBytes(len(m.Event))
}

// Cost returns an estimate of the memory of a stored message in bytes.
func (m Message) Cost() int { return overhead + len(m.Topic) + len(m.Event) }

const (
	// overhead is the memory of a stored message in addition to its topic and its event.
	overhead = 128
	// sharedBytes is the size from which an event is sent without a copy.
	sharedBytes = 16 << 10
	// copiedFrame is the largest frame that received events do not refer to, in bytes.
	copiedFrame = 64 << 10
)

// ClientFrame is a message of a client on the stream Broker.Connect.
type ClientFrame struct {
	Subscribe    *Subscribe // first frame only
	Messages     []Message
	Acknowledged uint64 // number of handled deliveries
	Malformed    error  // of a received frame; the other fields are then incomplete
}

// Subscribe opens a connection.
type Subscribe struct {
	Filters, Optional []string
	Window            int // bytes of deliveries without acknowledgement, by Message.Cost
}

// ServerFrame is a message of the server on the stream Broker.Connect.
type ServerFrame struct {
	Granted      *Granted // first frame only
	Messages     []Message
	Acknowledged uint64 // number of publications that were accepted or refused
	Refused      []Refusal
}

// Granted accepts a connection.
type Granted struct {
	MaxMessageSize int // by Message.Size
	Denied         []Denial
}

// Denial is a denied optional filter.
type Denial struct {
	Filter string
	Code   uint32 // of gRPC
	Reason string
}

// Refusal is a refused publication.
type Refusal struct {
	Number uint64 // from 1, in the order of the stream
	Code   uint32 // of gRPC
	Reason string
}

// mostEntries bounds each list of a received frame: an empty entry has 2 bytes in a frame, and up to
// 48 in memory.
const mostEntries = 4096

var errEntries = fmt.Errorf("a frame has more than %d entries of one kind", mostEntries)

// Field numbers. Messages and acknowledged are the same in both frames.
const (
	fieldOpen, fieldMessages, fieldAcknowledged, fieldRefused = 1, 2, 3, 4

	fieldTopic, fieldEvent                   = 1, 2
	fieldFilters, fieldOptional, fieldWindow = 1, 2, 3
	fieldMaxSize, fieldDenied                = 1, 2
	fieldSubject, fieldCode, fieldReason     = 1, 2, 3
)

// encoder collects the buffers of a frame. Large events are not copied.
type encoder struct {
	out  mem.BufferSlice
	last []byte
}

func (e *encoder) messages(messages []Message) {
	if len(messages) == 0 {
		return
	}
	size := len(e.last)
	for _, m := range messages {
		size += 1 + protowire.SizeBytes(m.Size())
		if len(m.Event) >= sharedBytes {
			size -= len(m.Event)
		}
	}
	e.last = append((*buffers.Get(size))[:0], e.last...)
	for _, m := range messages {
		size := m.Size()
		e.last = protowire.AppendVarint(protowire.AppendTag(e.last, fieldMessages, protowire.BytesType), uint64(size))
		e.last = appendString(e.last, fieldTopic, m.Topic)
		e.last = protowire.AppendTag(e.last, fieldEvent, protowire.BytesType)
		e.last = protowire.AppendVarint(e.last, uint64(len(m.Event)))
		if len(m.Event) < sharedBytes {
			e.last = append(e.last, m.Event...)
			continue
		}
		e.flush()
		e.out = append(e.out, mem.SliceBuffer(m.Event))
	}
}

func (e *encoder) bytes(field protowire.Number, b []byte) {
	e.last = protowire.AppendBytes(protowire.AppendTag(e.last, field, protowire.BytesType), b)
}

func (e *encoder) acknowledged(n uint64) {
	if n > 0 {
		e.last = appendVarint(e.last, fieldAcknowledged, n)
	}
}

func (e *encoder) flush() {
	b := e.last
	e.out, e.last = append(e.out, mem.NewBuffer(&b, buffers)), nil
}

func (e *encoder) finish() mem.BufferSlice {
	if len(e.last) > 0 || len(e.out) == 0 {
		e.flush()
	}
	return e.out
}

// Encode returns the frame in protobuf. It shares the memory of large events.
func (f *ClientFrame) Encode() mem.BufferSlice {
	var e encoder
	if s := f.Subscribe; s != nil {
		var b []byte
		for _, filter := range s.Filters {
			b = appendString(b, fieldFilters, filter)
		}
		for _, filter := range s.Optional {
			b = appendString(b, fieldOptional, filter)
		}
		e.bytes(fieldOpen, appendVarint(b, fieldWindow, uint64(s.Window))) //nolint:gosec // it is not negative
	}
	e.acknowledged(f.Acknowledged)
	e.messages(f.Messages)
	return e.finish()
}

// Encode returns the frame in protobuf. It shares the memory of large events.
func (f *ServerFrame) Encode() mem.BufferSlice {
	var e encoder
	if g := f.Granted; g != nil {
		b := appendVarint(nil, fieldMaxSize, uint64(g.MaxMessageSize)) //nolint:gosec // it is not negative
		for _, d := range g.Denied {
			entry := appendString(nil, fieldSubject, d.Filter)
			entry = appendString(appendVarint(entry, fieldCode, uint64(d.Code)), fieldReason, d.Reason)
			b = protowire.AppendBytes(protowire.AppendTag(b, fieldDenied, protowire.BytesType), entry)
		}
		e.bytes(fieldOpen, b)
	}
	for _, r := range f.Refused {
		entry := appendVarint(appendVarint(nil, fieldSubject, r.Number), fieldCode, uint64(r.Code))
		e.bytes(fieldRefused, appendString(entry, fieldReason, r.Reason))
	}
	e.acknowledged(f.Acknowledged)
	e.messages(f.Messages)
	return e.finish()
}

// Decode reads a frame. Its events refer to b if b is large, unless that would keep a much larger
// frame in memory.
func (f *ClientFrame) Decode(b []byte) error {
	return fields(b, func(field protowire.Number, n uint64, v []byte) (err error) {
		switch field {
		case fieldOpen:
			f.Subscribe, err = decodeSubscribe(v)
		case fieldMessages:
			f.Messages, err = appendMessage(f.Messages, v, len(b))
		case fieldAcknowledged:
			f.Acknowledged = n
		}
		return err
	})
}

// Decode reads a frame. Its events refer to b if b is large, unless that would keep a much larger
// frame in memory.
func (f *ServerFrame) Decode(b []byte) error {
	return fields(b, func(field protowire.Number, n uint64, v []byte) (err error) {
		switch field {
		case fieldOpen:
			f.Granted, err = decodeGranted(v)
		case fieldMessages:
			f.Messages, err = appendMessage(f.Messages, v, len(b))
		case fieldAcknowledged:
			f.Acknowledged = n
		case fieldRefused:
			var r Refusal
			r.Code, r.Reason, err = decodeReason(v, func(n uint64, _ []byte) { r.Number = n })
			if f.Refused = append(f.Refused, r); len(f.Refused) > mostEntries {
				return errEntries
			}
		}
		return err
	})
}

func appendMessage(messages []Message, b []byte, frame int) ([]Message, error) {
	if len(messages) == mostEntries {
		return messages, errEntries
	}
	var m Message
	err := fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		switch field {
		case fieldTopic:
			m.Topic = string(v)
		case fieldEvent:
			m.Event = v
			if frame <= copiedFrame || frame > 2*len(v) {
				m.Event = append(make([]byte, 0, len(v)), v...)
			}
		}
		return nil
	})
	if err != nil {
		return messages, fmt.Errorf("message: %w", err)
	}
	return append(messages, m), nil
}

func decodeSubscribe(b []byte) (*Subscribe, error) {
	s := &Subscribe{}
	err := fields(b, func(field protowire.Number, n uint64, v []byte) error {
		switch field {
		case fieldFilters:
			s.Filters = append(s.Filters, string(v))
		case fieldOptional:
			s.Optional = append(s.Optional, string(v))
		case fieldWindow:
			if n > 1<<31-1 {
				return errors.New("window: must be less than 2 GiB")
			}
			s.Window = int(n)
		}
		if len(s.Filters)+len(s.Optional) > mostEntries {
			return errEntries
		}
		return nil
	})
	return s, err
}

func decodeGranted(b []byte) (*Granted, error) {
	g := &Granted{}
	err := fields(b, func(field protowire.Number, n uint64, v []byte) (err error) {
		switch field {
		case fieldMaxSize:
			if n > 1<<31-1 {
				return errors.New("max_message_size: must be less than 2 GiB")
			}
			g.MaxMessageSize = int(n)
		case fieldDenied:
			var d Denial
			d.Code, d.Reason, err = decodeReason(v, func(_ uint64, v []byte) { d.Filter = string(v) })
			if g.Denied = append(g.Denied, d); len(g.Denied) > mostEntries {
				return errEntries
			}
		}
		return err
	})
	return g, err
}

// decodeReason reads a refusal or a denial. Their first field differs.
func decodeReason(b []byte, subject func(n uint64, v []byte)) (code uint32, reason string, err error) {
	err = fields(b, func(field protowire.Number, n uint64, v []byte) error {
		switch field {
		case fieldSubject:
			subject(n, v)
		case fieldCode:
			code = uint32(n) //nolint:gosec // protobuf's uint32: the low 32 bits
		case fieldReason:
			reason = string(v)
		}
		return nil
	})
	return code, reason, err
}
