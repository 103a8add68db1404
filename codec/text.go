// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// appendString appends s as a JSON string with the fewest escapes: those that RFC 8785 requires, so
// that canonical text and events share one function. Invalid UTF-8 becomes U+FFFD, as in
// encoding/json.
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

// unquoteBytes returns the text of a valid JSON string. It shares memory with raw if there are no
// escapes.
func unquoteBytes(raw []byte) []byte {
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text
	}
	// Escapes and invalid UTF-8 are rare: encoding/json handles surrogates and replacement. It
	// cannot fail on a scanned string.
	var s string
	_ = json.Unmarshal(raw, &s)
	return []byte(s)
}

// unquote returns the text of a scanned JSON value, and whether it is a string.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return string(unquoteBytes(raw)), true
}

// isNull reports whether a scanned value is null.
func isNull(raw []byte) bool { return string(raw) == "null" }
