// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// appendString appends s as a JSON string with the fewest escapes: the ones that RFC 8785 demands, so that
// canonical text and the wire share one writer. Invalid UTF-8 becomes U+FFFD, as in encoding/json.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' && b < utf8.RuneSelf {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + size
			}
			i += size
			continue
		}
		dst = appendEscape(append(dst, s[start:i]...), b)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	default:
		return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
	}
}

// unquoteBytes returns the text of a valid JSON string, sharing its memory where it has no escapes.
func unquoteBytes(raw []byte) []byte {
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text
	}
	// Escapes and invalid UTF-8 are rare: leave surrogates and replacement to encoding/json, which cannot
	// fail on a string that was scanned.
	var s string
	_ = json.Unmarshal(raw, &s)
	return []byte(s)
}

// unquote returns the text of a JSON value that was scanned, and whether it is a string.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return string(unquoteBytes(raw)), true
}

// isNull reports whether a scanned value is null.
func isNull(raw []byte) bool { return string(raw) == "null" }
