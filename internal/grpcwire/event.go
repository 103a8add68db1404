// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package grpcwire reads and writes the messages of OCM's io.cloudevents.v1 protobuf package, and the
// frames of Broker.Connect. It registers no protobuf types, so that a process can also link OCM's
// generated code, which has the same names.
package grpcwire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/cut"
)

// Field numbers of CloudEvent.
const (
	fieldID, fieldSource, fieldSpecVersion, fieldType = 1, 2, 3, 4
	fieldAttributes, fieldBinary, fieldText, fieldAny = 5, 6, 7, 8
)

var fieldNames = [...]string{fieldID: "id", fieldSource: "source", fieldSpecVersion: "specversion", fieldType: "type"}

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
	if err := checkContentType(e); err != nil {
		return dst, err
	}
	extensions := extensionsOf(e)
	var scratch [256]byte
	value := scratch[:0]
	for name, text := range codec.Attributes(e) {
		if !utf8.ValidString(text) { // protobuf's readers would refuse the whole message
			return dst, fmt.Errorf("attribute %s is not UTF-8", name)
		}
		switch name {
		case "id", "source", "specversion", "type":
			if err := checkSpace(name, text); err != nil {
				return dst, err
			}
			dst = appendString(dst, protowire.Number(slices.Index(fieldNames[:], name)), text) //nolint:gosec // 1 to 4
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

// extensionsOf returns the extensions of an event, which the caller must not change.
func extensionsOf(e *ce.Event) map[string]any {
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
// The event refers to b. An event that other readers may understand differently is an error: what the
// server authorizes must be what a subscriber reads.
func ParseEvent(b []byte) (*ce.Event, error) {
	var buf [32]string
	pairs := buf[:0]
	var data []byte
	err := known(b, event, func(field protowire.Number, _ uint64, v []byte) (err error) {
		switch field {
		case fieldID, fieldSource, fieldSpecVersion, fieldType:
			pairs = append(pairs, fieldNames[field], string(v))
			return checkSpace(fieldNames[field], pairs[len(pairs)-1])
		case fieldAttributes:
			pairs, err = appendPair(pairs, v)
		case fieldBinary, fieldText:
			data = v
		case fieldAny:
			return errors.New("proto_data: must be binary_data or text_data")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("not a CloudEvent: %w", err)
	}
	e, err := codec.FromAttributes(func(yield func(string, string) bool) {
		for i := 0; i < len(pairs) && yield(pairs[i], pairs[i+1]); i += 2 {
		}
	}, "", data)
	if err == nil {
		err = checkContentType(e)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// checkSpace returns an error for a value that other readers shorten.
func checkSpace(name, value string) error {
	if len(strings.TrimSpace(value)) != len(value) {
		return fmt.Errorf("%s: must not begin or end with space", name)
	}
	return nil
}

// checkContentType returns an error for events in structured mode: their readers use the attributes
// in the data or those of the message.
func checkContentType(e *ce.Event) error {
	if strings.HasPrefix(strings.ToLower(e.DataContentType()), "application/cloudevents") {
		return errors.New("contenttype: must not be a format of CloudEvents: the attributes belong into the message")
	}
	return nil
}

// mostAttributes bounds the attributes of an event. Each is compared with all others.
const mostAttributes = 128

// appendPair appends the name and the value of an attribute, unless it does not belong to the event.
func appendPair(pairs []string, b []byte) ([]string, error) {
	key, text, err := parseAttribute(b)
	if err != nil {
		return pairs, err
	}
	name, isOfEvent := strings.CutPrefix(key, prefix)
	switch {
	case key == contentType:
		name = "datacontenttype"
	case !isOfEvent:
		return pairs, nil
	case !ce.IsExtensionNameValid(name):
		return pairs, fmt.Errorf("attribute %q: the name must have only letters and digits", cut.Text(key, longestName))
	}
	if name = strings.ToLower(name); slices.Contains(fieldNames[1:], name) {
		return pairs, fmt.Errorf("attribute %q: must be a field of the message", key)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == name {
			return pairs, fmt.Errorf("attribute %q: must not be present twice", cut.Text(key, longestName))
		}
	}
	if pairs = append(pairs, name, text); len(pairs) > 2*mostAttributes {
		return pairs, fmt.Errorf("must not have more than %d attributes", mostAttributes)
	}
	return pairs, nil
}

// longestName is the length up to which errors have a name, in bytes.
const longestName = 128

func parseAttribute(b []byte) (name, text string, err error) {
	hasValue := false
	err = known(b, attribute, func(field protowire.Number, _ uint64, v []byte) (err error) {
		switch field {
		case 1:
			name = string(v)
		case 2:
			text, hasValue, err = parseValue(v)
		}
		return err
	})
	if err != nil || !hasValue {
		err = fmt.Errorf("attribute %q: %w", cut.Text(name, longestName), cmp.Or(err, errNoValue))
	}
	return name, text, err
}

var errNoValue = errors.New("has no value")

func parseValue(b []byte) (text string, found bool, err error) {
	err = known(b, attributeValue, func(field protowire.Number, n uint64, v []byte) (err error) {
		found = true
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
	return text, found, err
}

func parseTime(b []byte) (string, error) {
	var seconds, nanos int64
	err := known(b, timestamp, func(field protowire.Number, n uint64, _ []byte) error {
		switch field {
		case 1:
			seconds = int64(n) //nolint:gosec // protobuf's int64
		case 2:
			nanos = int64(int32(n)) //nolint:gosec // protobuf's int32: the low 32 bits
		}
		return nil
	})
	return time.Unix(seconds, nanos).UTC().Format(time.RFC3339Nano), err
}
