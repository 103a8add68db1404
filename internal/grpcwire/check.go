// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

var errUTF8 = errors.New("a string is not UTF-8")

// CheckEvent returns an error for bytes that protobuf cannot read as a CloudEvent message. It does not
// check that the event is valid.
func CheckEvent(b []byte) error {
	if err := check(b, event); err != nil {
		return fmt.Errorf("not a CloudEvent: %w", err)
	}
	return nil
}

// kinds has a check for each field of a message that is a string or a message.
type kinds map[protowire.Number]func([]byte) error

var event = kinds{
	fieldID: isText, fieldSource: isText, fieldSpecVersion: isText, fieldType: isText, fieldText: isText,
	fieldAttributes: within(kinds{1: isText, 2: within(kinds{
		valueString: isText, valueURI: isText, valueURIRef: isText, valueTimestamp: within(nil),
	})}),
	fieldAny: within(kinds{1: isText}),
}

func within(k kinds) func([]byte) error { return func(b []byte) error { return check(b, k) } }

func isText(b []byte) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	return nil
}

func check(b []byte, k kinds) error {
	return fields(b, func(field protowire.Number, _ uint64, v []byte) error {
		if is := k[field]; is != nil && v != nil {
			return is(v)
		}
		return nil
	})
}
