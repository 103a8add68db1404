// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendString appends s as a JSON string with the escapes that RFC 8785 requires, the fewest.
// Invalid UTF-8 becomes U+FFFD, as in encoding/json.
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
	if i := strings.IndexByte("\"\\\b\t\n\f\r", b); i >= 0 {
		return append(dst, '\\', `"\btnfr`[i])
	}
	return appendUnit(dst, uint16(b))
}

// AppendASCII appends JSON text and escapes all but printable ASCII.
func AppendASCII(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch {
		case r < 0x7f:
			dst = append(dst, byte(r))
		case r <= 0xffff:
			dst = appendUnit(dst, uint16(r))
		default:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, uint16(high)), uint16(low))
		}
	}
	return dst
}

func appendUnit(dst []byte, u uint16) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
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

// unescape decodes a string with escapes or invalid UTF-8. It cannot fail on a valid string.
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
