// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// CheckEvent returns an error for bytes that protobuf cannot read as a CloudEvent message, and for
// fields that readers may understand differently: a known field twice, or with another wire type. It
// does not check that the event is valid.
func CheckEvent(b []byte) error {
	if err := check(b, event); err != nil {
		return fmt.Errorf("not a CloudEvent: %w", err)
	}
	return nil
}

// layout has the known fields of a message, by their numbers.
type layout []layoutField

type layoutField struct {
	wire  protowire.Type
	group uint   // at most one field of a group is present, except for group 0
	text  bool   // it must be UTF-8
	inner layout // of a message
}

var (
	event = layout{
		fieldID: text(1), fieldSource: text(2), fieldSpecVersion: text(3), fieldType: text(4),
		fieldAttributes: message(0, attribute),
		fieldBinary:     {wire: protowire.BytesType, group: 5}, fieldText: text(5), fieldAny: message(5, anyMessage),
	}
	attribute      = layout{1: text(1), 2: message(2, attributeValue)}
	attributeValue = layout{
		valueBool: {wire: protowire.VarintType, group: 1}, valueInteger: {wire: protowire.VarintType, group: 1},
		valueString: text(1), valueBytes: {wire: protowire.BytesType, group: 1}, valueURI: text(1), valueURIRef: text(1),
		valueTimestamp: message(1, timestamp),
	}
	timestamp  = layout{1: {wire: protowire.VarintType, group: 1}, 2: {wire: protowire.VarintType, group: 2}}
	anyMessage = layout{1: text(1), 2: {wire: protowire.BytesType, group: 2}}
)

func text(group uint) layoutField {
	return layoutField{wire: protowire.BytesType, group: group, text: true}
}

func message(group uint, inner layout) layoutField {
	return layoutField{wire: protowire.BytesType, group: group, inner: inner}
}

var errUTF8 = errors.New("a string is not UTF-8")

// known calls visit as [fields] does, only for the fields of a layout. It checks all but inner messages.
func known(b []byte, l layout, visit func(field protowire.Number, n uint64, v []byte) error) error {
	seen := uint(0) // a bit for each group
	return typed(b, func(field protowire.Number, wire protowire.Type, n uint64, v []byte) error {
		if int(field) >= len(l) {
			return nil
		}
		f := l[field]
		switch group := uint(1) << f.group; {
		case wire != f.wire:
			return fmt.Errorf("field %d: must have the wire type %d, not %d", field, f.wire, wire)
		case f.group != 0 && seen&group != 0:
			return fmt.Errorf("field %d: must not be present twice, or together with an alternative", field)
		case f.text && !utf8.Valid(v):
			return fmt.Errorf("field %d: %w", field, errUTF8)
		default:
			seen |= group
		}
		return visit(field, n, v)
	})
}

// check checks a message and its inner messages.
func check(b []byte, l layout) error {
	return known(b, l, func(field protowire.Number, _ uint64, v []byte) error {
		if inner := l[field].inner; inner != nil {
			return check(v, inner)
		}
		return nil
	})
}
