// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strconv"
)

// MaxDepth is the largest nesting depth of arrays and objects in an event, and of any JSON in it.
// It prevents hostile input from exhausting the stack. encoding/json and the API server's decoder
// stop at 10,000. So they can decode the JSON of this package, also inside some more levels, such
// as a work in a record of a store.
const MaxDepth = 9000

// MaxManifestDepth is the largest nesting depth of a manifest that fits into an event.
const MaxManifestDepth = MaxDepth - manifestDepth

// MaxElements is the limit of list elements and map members in an event's data together. Manifests
// count as one element each. An element with two bytes of text can take hundreds of bytes in
// memory.
const MaxElements = 1 << 18

// syntaxError is the position and reason of malformed JSON. It never quotes the text, which may
// contain secrets.
type syntaxError struct {
	offset int
	reason string
}

func (e *syntaxError) Error() string {
	return e.reason + " at byte " + strconv.Itoa(e.offset)
}

// Reasons of syntax errors.
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
	reasonMany    = "more than 262144 elements" // MaxElements
	reasonObject  = "expected an object"
	reasonArray   = "expected an array"
	reasonMore    = "text after the JSON value"
)

// reasonFor returns the usual reason for an error, or another one if there are too many elements.
func reasonFor(err error, usual string) string {
	var syntax *syntaxError
	if errors.As(err, &syntax) && syntax.reason == reasonMany {
		return "is too large"
	}
	return usual
}

// The scan functions validate one value that begins at data[i], in one pass and without allocating.
// They return the index after it and "", or the index of the error and the reason. They accept the
// same text as encoding/json.Valid: invalid UTF-8 in strings is accepted, and replaced when a
// string is read.

func scanValue(data []byte, i, depth int) (int, string) {
	if i >= len(data) {
		return i, reasonEnd
	}
	switch b := data[i]; b {
	case '"':
		return scanString(data, i)
	case '{':
		return scanObject(data, i, depth+1)
	case '[':
		return scanArray(data, i, depth+1)
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

// scanObject validates an object; depth includes it.
func scanObject(data []byte, i, depth int) (int, string) {
	if depth > MaxDepth {
		return i, reasonDepth
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1, ""
	}
	for {
		var reason string
		if i, reason = scanKey(data, i); reason != "" {
			return i, reason
		}
		if i, reason = scanValue(data, i, depth); reason != "" {
			return i, reason
		}
		i = skipSpace(data, i)
		switch {
		case i >= len(data):
			return i, reasonEnd
		case data[i] == ',':
			i = skipSpace(data, i+1)
		case data[i] == '}':
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

// scanArray validates an array; depth includes it.
func scanArray(data []byte, i, depth int) (int, string) {
	if depth > MaxDepth {
		return i, reasonDepth
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		return i + 1, ""
	}
	for {
		var reason string
		if i, reason = scanValue(data, i, depth); reason != "" {
			return i, reason
		}
		i = skipSpace(data, i)
		switch {
		case i >= len(data):
			return i, reasonEnd
		case data[i] == ',':
			i = skipSpace(data, i+1)
		case data[i] == ']':
			return i + 1, ""
		default:
			return i, reasonComma
		}
	}
}

// scanString validates a string. DEL and invalid UTF-8 are accepted, as in encoding/json. It looks
// only for the end of the string, escapes, and control characters below the space.
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
// borrow can also set the bit of a byte above such a byte, but never below, so the lowest one is
// correct.
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

// scanNumber validates a number. Its value does not matter: numbers stay text until they are
// needed.
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
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

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
