// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package h2test writes HTTP/2 frames (RFC 9113), for clients that behave as no library does.
package h2test

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Preface is the beginning of a connection.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// These are the types of frames, and the flags.
const (
	Data         = 0x0
	Headers      = 0x1
	Reset        = 0x3
	Continuation = 0x9

	EndStream  = 0x1
	EndHeaders = 0x4
)

// Frame returns a frame.
func Frame(kind, flags byte, stream uint32, payload string) string {
	header := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload)<<8)|uint32(kind))[1:]
	header = append(header, flags)
	return string(binary.BigEndian.AppendUint32(header, stream)) + payload
}

// entries is the number of fields that the client adds to the dynamic table of a connection, which
// has 4,096 bytes.
const entries = 120

// Calls returns the headers of gRPC calls to a path, with a number of further fields in each call.
// The calls are the streams 1, 3, 5 and so on of a connection. In all calls but the first, a field
// needs 2 bytes, and 34 bytes in the list of headers.
func Calls(path string, calls, fields int) string {
	var out strings.Builder
	for call := range calls {
		block := start(path)
		for i := range fields {
			if call == 0 && i < entries {
				block += "\x40" + text(string([]byte{'a' + byte(i/26), 'a' + byte(i%26)})) + text("")
			} else {
				block += index(62 + i%entries)
			}
		}
		out.WriteString(Frame(Headers, EndHeaders, Stream(call), block))
	}
	return out.String()
}

// LongCall returns the header of one gRPC call on stream 1, in frames of 16 KiB. It has a number of
// further fields with the same value.
func LongCall(path string, fields int, value string) string {
	const most = 16 << 10
	block := start(path)
	for i := range fields {
		block += "\x00" + text(fmt.Sprint("x-", i)) + text(value)
	}
	kind, out := byte(Headers), ""
	for ; len(block) > most; block = block[most:] {
		out += Frame(kind, 0, Stream(0), block[:most])
		kind = Continuation
	}
	return out + Frame(kind, EndHeaders, Stream(0), block)
}

// start returns POST and http, and then fields that are not added to the table.
func start(path string) string {
	return "\x83\x86" + "\x04" + text(path) + "\x01" + text("a") + "\x0f\x10" + text("application/grpc") + "\x00" +
		text("te") + text("trailers")
}

// Stream returns the stream number of a connection's nth call. n starts at 0.
func Stream(n int) uint32 { return uint32(2*n + 1) }

// text encodes a string (RFC 7541, 5.2).
func text(s string) string {
	const most = 1<<7 - 1
	if len(s) < most {
		return string([]byte{byte(len(s))}) + s
	}
	return string(binary.AppendUvarint([]byte{most}, uint64(len(s)-most))) + s
}

// index encodes an indexed field (RFC 7541, 6.1).
func index(i int) string {
	const most = 1<<7 - 1
	if i < most {
		return string([]byte{1<<7 | byte(i)})
	}
	return string([]byte{0xff, byte(i - most)})
}
