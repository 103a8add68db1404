// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsontext reads and changes JSON text without decoding all of it. It finds members, decodes
// into typed objects with few allocations, merges fields that a typed object does not have, makes
// JSON Patches, and writes the canonical form of RFC 8785.
//
// [Reader] reads text from other processes: it validates all text that it passes. Other functions,
// unless documented otherwise, need text that [Valid] accepts. For other text they return any
// result or an error, and do not panic.
package jsontext

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// SyntaxError is the position and reason of malformed JSON. It never quotes the text, which may
// contain secrets.
type SyntaxError struct {
	offset int
	reason string
	// TooMany is whether the text has more elements than its reader accepts.
	TooMany bool
}

// Error returns the reason and the position.
func (e *SyntaxError) Error() string {
	return e.reason + " at byte " + strconv.Itoa(e.offset)
}

const (
	reasonEnd     = "unexpected end of JSON"
	reasonValue   = "expected a JSON value"
	reasonKey     = "expected a string as key"
	reasonColon   = "expected a colon"
	reasonComma   = "expected a comma or the end"
	reasonString  = "control character in string"
	reasonEscape  = "bad escape in string"
	reasonLiteral = "bad literal"
	reasonNumber  = "bad number"
	reasonDepth   = "nested too deep"
	reasonObject  = "expected an object"
	reasonArray   = "expected an array"
	reasonMore    = "text after the JSON value"
)

// validDepth is the largest nesting depth that encoding/json accepts.
const validDepth = 10_000

// Valid reports whether data is one JSON value, as encoding/json.Valid does.
func Valid(data []byte) bool {
	r := NewReader(data, validDepth, 0)
	r.Value()
	return r.End() == nil
}

// The scan functions validate one value that begins at data[i], as encoding/json.Valid does: invalid
// UTF-8 in strings is accepted, and replaced when a string is read. They return the index after it
// and "", or the index of the error and the reason. levels is the number of nested containers that
// are still allowed.

func scanValue(data []byte, i, levels int) (int, string) {
	if i >= len(data) {
		return i, reasonEnd
	}
	switch b := data[i]; b {
	case '"':
		return scanString(data, i)
	case '{', '[':
		return scanContainer(data, i, levels-1)
	case 't':
		return scanLiteral(data, i, "true")
	case 'f':
		return scanLiteral(data, i, "false")
	case 'n':
		return scanLiteral(data, i, "null")
	default:
		if b == '-' || isDigit(b) {
			return scanNumber(data, i)
		}
		return i, reasonValue
	}
}

func scanContainer(data []byte, i, levels int) (int, string) {
	if levels < 0 {
		return i, reasonDepth
	}
	closing := data[i] + 2 // of both brackets in ASCII
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == closing {
		return i + 1, ""
	}
	for {
		var reason string
		if closing == '}' {
			if i, reason = scanKey(data, i); reason != "" {
				return i, reason
			}
		}
		if i, reason = scanValue(data, i, levels); reason != "" {
			return i, reason
		}
		i = skipSpace(data, i)
		switch {
		case i >= len(data):
			return i, reasonEnd
		case data[i] == ',':
			i = skipSpace(data, i+1)
		case data[i] == closing:
			return i + 1, ""
		default:
			return i, reasonComma
		}
	}
}

// scanKey validates a key and its colon and returns where the value begins.
func scanKey(data []byte, i int) (int, string) {
	if i >= len(data) {
		return i, reasonEnd
	}
	if data[i] != '"' {
		return i, reasonKey
	}
	i, reason := scanString(data, i)
	if reason != "" {
		return i, reason
	}
	if i < len(data) && data[i] != ':' {
		i = skipSpace(data, i)
	}
	if i >= len(data) {
		return i, reasonEnd
	}
	if data[i] != ':' {
		return i, reasonColon
	}
	return skipSpace(data, i+1), ""
}

// scanString looks only for the end of the string, escapes, and control characters below the space.
func scanString(data []byte, i int) (int, string) {
	for i++; i < len(data); i++ {
		if i = skipPlain(data, i); i >= len(data) {
			break
		}
		switch b := data[i]; {
		case b == '"':
			return i + 1, ""
		case b == '\\':
			var reason string
			if i, reason = scanEscape(data, i); reason != "" {
				return i, reason
			}
		case b < ' ':
			return i, reasonString
		}
	}
	return i, reasonEnd
}

// skipPlain skips ordinary bytes, eight at a time. Most of the scanned text is in strings.
func skipPlain(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		if stop := stopBytes(binary.LittleEndian.Uint64(data[i:])); stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	return i
}

// stopBytes sets the high bit of each byte that is a quote, a backslash or a control character. A
// borrow can also set the bit of a byte above such a byte, so only the lowest one is correct.
func stopBytes(word uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = ones << 7
	)
	quotes, slashes := word^ones*'"', word^ones*'\\'
	return ((word-ones*' ')&^word | (quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs
}

// scanEscape returns the index of the last byte of the escape that begins at data[i].
func scanEscape(data []byte, i int) (int, string) {
	i++
	if i >= len(data) {
		return i, reasonEnd
	}
	switch data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i, ""
	case 'u':
		for range 4 {
			i++
			if i >= len(data) {
				return i, reasonEnd
			}
			if !isHex(data[i]) {
				return i, reasonEscape
			}
		}
		return i, ""
	default:
		return i, reasonEscape
	}
}

func scanNumber(data []byte, i int) (int, string) {
	if data[i] == '-' {
		i++
	}
	switch {
	case i >= len(data):
		return i, reasonEnd
	case data[i] == '0': // no digit may follow a leading zero
		i++
	case isDigit(data[i]):
		i = skipDigits(data, i)
	default:
		return i, reasonNumber
	}
	if i < len(data) && data[i] == '.' {
		next := skipDigits(data, i+1)
		if next == i+1 {
			return next, reasonNumber
		}
		i = next
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		next := skipDigits(data, i)
		if next == i {
			return next, reasonNumber
		}
		i = next
	}
	return i, ""
}

func scanLiteral(data []byte, i int, literal string) (int, string) {
	if len(data)-i < len(literal) || string(data[i:i+len(literal)]) != literal {
		return i, reasonLiteral
	}
	return i + len(literal), ""
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && isSpace(data[i]) {
		i++
	}
	return i
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

func skipDigits(data []byte, i int) int {
	for i < len(data) && isDigit(data[i]) {
		i++
	}
	return i
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isHex(b byte) bool {
	return isDigit(b) || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}
