// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"encoding/base64"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields calls visit with the number of each field and its varint or bytes.
func fields(b []byte, visit func(field protowire.Number, n uint64, v []byte) error) error {
	return typed(b, func(field protowire.Number, _ protowire.Type, n uint64, v []byte) error { return visit(field, n, v) })
}

// typed calls visit as [fields] does, also with the wire type.
func typed(b []byte, visit func(field protowire.Number, wire protowire.Type, n uint64, v []byte) error) error {
	for len(b) > 0 {
		field, wire, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if !field.IsValid() {
			return fmt.Errorf("field %d: the number is not valid", field)
		}
		b = b[size:]
		var n uint64
		var v []byte
		switch wire {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(field, wire, b)
		}
		if size < 0 {
			return fmt.Errorf("field %d: %w", field, protowire.ParseError(size))
		}
		b = b[size:]
		if err := visit(field, wire, n, v); err != nil {
			return err
		}
	}
	return nil
}

func encodeBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
