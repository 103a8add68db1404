// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package grpcwire reads and writes the messages of OCM's io.cloudevents.v1 protobuf package, and the
// frames of Broker.Connect. It registers no protobuf types, so that a process can also link OCM's
// generated code, which has the same names.
package grpcwire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spokewire/sdk-go/codec"
)

// Field numbers of CloudEvent.
const (
	fieldID, fieldSource, fieldSpecVersion, fieldType = 1, 2, 3, 4
	fieldAttributes, fieldBinary, fieldText, fieldAny = 5, 6, 7, 8
)

// Field numbers of CloudEventAttributeValue.
const (
	valueBool, valueInteger, valueString, valueBytes = 1, 2, 3, 4
	valueURI, valueURIRef, valueTimestamp            = 5, 6, 7
)

const (
	prefix      = "ce-"
	contentType = "contenttype" // the only attribute without prefix
)

// AppendEvent appends e as OCM's SDK writes it: integers, booleans, bytes and the time with their
// types, the content type without the prefix "ce-", the data as binary_data.
func AppendEvent(dst []byte, e *ce.Event) ([]byte, error) {
	if e == nil {
		return dst, errors.New("not a CloudEvent: the message has no event")
	}
	if err := e.Validate(); err != nil {
		return dst, fmt.Errorf("not a CloudEvent: %w", err)
	}
	extensions := typed(e)
	var scratch [256]byte
	value := scratch[:0]
	for name, text := range codec.Attributes(e) {
		if !utf8.ValidString(text) { // protobuf's readers would refuse the whole message
			return dst, fmt.Errorf("attribute %s is not UTF-8", name)
		}
		switch name {
		case "id":
			dst = appendString(dst, fieldID, text)
		case "source":
			dst = appendString(dst, fieldSource, text)
		case "specversion":
			dst = appendString(dst, fieldSpecVersion, text)
		case "type":
			dst = appendString(dst, fieldType, text)
		case "time":
			value = appendTime(value[:0], e.Time())
			dst = appendAttribute(dst, prefix+name, value)
		case "dataschema":
			dst = appendAttribute(dst, prefix+name, appendString(value[:0], valueURI, text))
		default:
			value = appendValue(value[:0], extensions[name], text)
			dst = appendAttribute(dst, prefix+name, value)
		}
	}
	if t := e.DataContentType(); t != "" {
		if !utf8.ValidString(t) {
			return dst, errors.New("attribute datacontenttype is not UTF-8")
		}
		dst = appendAttribute(dst, contentType, appendString(value[:0], valueString, t))
	}
	if data := e.Data(); data != nil {
		dst = protowire.AppendTag(dst, fieldBinary, protowire.BytesType)
		dst = protowire.AppendBytes(dst, data)
	}
	return dst, nil
}

// typed returns the extensions of an event, which the caller must not change.
func typed(e *ce.Event) map[string]any {
	if v1, ok := e.Context.(*ce.EventContextV1); ok {
		return v1.Extensions
	}
	return e.Extensions()
}

func appendString(dst []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

func appendVarint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendAttribute(dst []byte, name string, value []byte) []byte {
	size := 2 + protowire.SizeBytes(len(name)) + protowire.SizeBytes(len(value))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldAttributes, protowire.BytesType), uint64(size))
	dst = appendString(dst, 1, name)
	return protowire.AppendBytes(protowire.AppendTag(dst, 2, protowire.BytesType), value)
}

func appendValue(dst []byte, value any, text string) []byte {
	switch v := value.(type) {
	case bool:
		return appendVarint(dst, valueBool, protowire.EncodeBool(v))
	case int32:
		return appendVarint(dst, valueInteger, uint64(int64(v))) //nolint:gosec // protobuf's int32: sign-extended
	case []byte:
		return protowire.AppendBytes(protowire.AppendTag(dst, valueBytes, protowire.BytesType), v)
	}
	return appendString(dst, valueString, text)
}

func appendTime(dst []byte, t time.Time) []byte {
	stamp := appendVarint(nil, 1, uint64(t.Unix()))               //nolint:gosec // protobuf's int64
	stamp = appendVarint(stamp, 2, uint64(int64(t.Nanosecond()))) //nolint:gosec // below 1e9
	return protowire.AppendBytes(protowire.AppendTag(dst, valueTimestamp, protowire.BytesType), stamp)
}

// ParseEvent reads an event. Attributes become strings in their canonical form, except the time.
// The event refers to b.
func ParseEvent(b []byte) (*ce.Event, error) {
	var buf [32]string
	pairs := buf[:0]
	var data []byte
	kind := ""
	err := fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		switch field {
		case fieldID:
			pairs = append(pairs, "id", string(v))
		case fieldSource:
			pairs = append(pairs, "source", string(v))
		case fieldSpecVersion:
			pairs = append(pairs, "specversion", string(v))
		case fieldType:
			pairs = append(pairs, "type", string(v))
		case fieldAttributes:
			name, text, err := parseAttribute(v)
			if name == contentType {
				kind = text
			} else if strings.HasPrefix(name, prefix) {
				pairs = append(pairs, name, text)
			}
			return err
		case fieldBinary, fieldText:
			data = v
		case fieldAny:
			return errors.New("proto_data: must be binary_data or text_data")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("not a CloudEvent: %w", err)
	}
	if strings.HasPrefix(strings.ToLower(kind), "application/cloudevents") {
		return codec.ParseStructured(data)
	}
	return codec.FromAttributes(func(yield func(string, string) bool) {
		for i := 0; i < len(pairs) && yield(pairs[i], pairs[i+1]); i += 2 {
		}
	}, kind, data)
}

func parseAttribute(b []byte) (name, text string, err error) {
	err = fields(b, func(field protowire.Number, _ uint64, v []byte) (err error) {
		switch field {
		case 1:
			name = string(v)
		case 2:
			text, err = parseValue(v)
		}
		return err
	})
	return name, text, err
}

func parseValue(b []byte) (text string, err error) {
	err = fields(b, func(field protowire.Number, n uint64, v []byte) (err error) {
		switch field {
		case valueBool:
			text = strconv.FormatBool(n != 0)
		case valueInteger:
			text = strconv.Itoa(int(int32(n))) //nolint:gosec // protobuf's int32: the low 32 bits
		case valueString, valueURI, valueURIRef:
			text = string(v)
		case valueBytes:
			text = encodeBase64(v)
		case valueTimestamp:
			text, err = parseTime(v)
		}
		return err
	})
	return text, err
}

func parseTime(b []byte) (string, error) {
	var seconds, nanos int64
	err := fields(b, func(field protowire.Number, n uint64, _ []byte) error {
		switch field {
		case 1:
			seconds = int64(n) //nolint:gosec // protobuf's int64
		case 2:
			nanos = int64(n) //nolint:gosec // protobuf's int32
		}
		return nil
	})
	return time.Unix(seconds, nanos).UTC().Format(time.RFC3339Nano), err
}
