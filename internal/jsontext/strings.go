// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// AppendString appends s as a JSON string with the fewest escapes: those that RFC 8785 requires, so
// that canonical and other text share one function. Invalid UTF-8 becomes U+FFFD, as in
// encoding/json.
func AppendString(dst []byte, s string) []byte {
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

// Unquote returns the text of a valid JSON string. It shares memory with the argument if there are
// no escapes.
func Unquote(quoted []byte) []byte {
	if plain(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	s, _ := unescape(quoted)
	return []byte(s)
}

// unescape decodes a string with escapes or invalid UTF-8, which are rare: encoding/json handles
// surrogates and replacement. It cannot fail on a valid string.
func unescape(quoted []byte) (s string, err error) {
	err = json.Unmarshal(quoted, &s)
	return s, err
}

// plain reports whether a string in the text needs no decoding.
func plain(quoted []byte) bool {
	return bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted)
}

// Text returns the string in a value. It returns false if the value is not a string.
func Text(data []byte) (string, bool) {
	data = data[skipSpace(data, 0):]
	for len(data) > 0 && isSpace(data[len(data)-1]) {
		data = data[:len(data)-1]
	}
	switch {
	case len(data) < 2 || data[0] != '"':
		return "", false
	case plain(data):
		return string(data[1 : len(data)-1]), true
	}
	s, err := unescape(data)
	return s, err == nil
}
