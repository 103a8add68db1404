// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package h2test writes frames of HTTP/2 (RFC 9113) for clients that do what no library does.
package h2test

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Preface begins a connection.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// The types of frames, and the flags.
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

// entries is how many fields the client puts into the table of a connection, which has 4,096 bytes.
const entries = 120

// Calls returns the headers of gRPC calls to a path, with further fields in each. The calls are the streams 1, 3, 5 and so on
// of a connection. In all but the first, a field takes 2 bytes, and 34 in the list of headers.
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

// LongCall returns the header of a gRPC call, the stream 1, with a number of further fields of the same value, in frames of 16 KiB.
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

// start returns POST http, then fields that are not put into the table.
func start(path string) string {
	return "\x83\x86" + "\x04" + text(path) + "\x01" + text("a") + "\x0f\x10" + text("application/grpc") + "\x00" + text("te") + text("trailers")
}

// Stream returns the number of a connection's nth call, from 0.
func Stream(n int) uint32 { return uint32(2*n + 1) }

// text is a string (RFC 7541, 5.2).
func text(s string) string {
	const most = 1<<7 - 1
	if len(s) < most {
		return string([]byte{byte(len(s))}) + s
	}
	return string(binary.AppendUvarint([]byte{most}, uint64(len(s)-most))) + s
}

// index is a field of a table (RFC 7541, 6.1).
func index(i int) string {
	const most = 1<<7 - 1
	if i < most {
		return string([]byte{1<<7 | byte(i)})
	}
	return string([]byte{0xff, byte(i - most)})
}
