// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsontext reads and changes JSON text without decoding all of it. It finds members, decodes
// into typed objects with few allocations, merges fields that a typed object does not have, and
// makes JSON Patches.
//
// Unless documented otherwise, functions need text that [Valid] accepts. For other text they return
// any result or an error, and do not panic.
package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Valid reports whether data is one JSON value.
func Valid(data []byte) bool { return json.Valid(data) }

// Kind is the kind of a value.
type Kind byte

// The kinds of values. Invalid is the kind of text without a value.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// KindOf returns the kind of a value, which may have space around it.
func KindOf(data []byte) Kind {
	i := space(data, 0)
	if i >= len(data) {
		return Invalid
	}
	switch c := data[i]; {
	case c == '{':
		return Object
	case c == '[':
		return Array
	case c == '"':
		return String
	case c == 't' || c == 'f':
		return Bool
	case c == 'n':
		return Null
	case c == '-' || '0' <= c && c <= '9':
		return Number
	}
	return Invalid
}

// Cursor iterates over the members of an object or the elements of an array.
type Cursor struct {
	data []byte
	pos  int
	key  bool
}

// Open returns a cursor before the first member or element of a value. For other values, the cursor
// is at its end.
func Open(data []byte) Cursor {
	i := space(data, 0)
	if i >= len(data) || data[i] != '{' && data[i] != '[' {
		return Cursor{}
	}
	return Cursor{data: data, pos: i + 1, key: data[i] == '{'}
}

// Next returns the next member or element. The key is the text with its quotes. Elements have no
// key.
func (c *Cursor) Next() (key, value []byte, ok bool) {
	i := space(c.data, c.pos)
	if i < len(c.data) && c.data[i] == ',' {
		i = space(c.data, i+1)
	}
	if i >= len(c.data) || c.data[i] == '}' || c.data[i] == ']' {
		return nil, nil, false
	}
	if c.key {
		end := skip(c.data, i)
		key = c.data[i:end]
		i = space(c.data, end)
		if i >= len(c.data) || c.data[i] != ':' {
			return nil, nil, false
		}
		i = space(c.data, i+1)
	}
	end := skip(c.data, i)
	if end == i {
		return nil, nil, false // not JSON
	}
	c.pos = end
	return key, c.data[i:end], true
}

// Member returns the value of a member of an object, or nil. If a name is repeated, the last value
// counts.
func Member(data []byte, name string) []byte {
	if KindOf(data) != Object {
		return nil
	}
	var found []byte
	for c := Open(data); ; {
		key, value, ok := c.Next()
		if !ok {
			return found
		}
		if isKey(key, name) {
			found = value
		}
	}
}

// Text returns the string in a value. It returns false if the value is not a string.
func Text(data []byte) (string, bool) {
	i := space(data, 0)
	if i >= len(data) || data[i] != '"' {
		return "", false
	}
	data = data[i:skip(data, i)]
	if len(data) < 2 {
		return "", false
	}
	if plain(data) {
		return string(data[1 : len(data)-1]), true
	}
	var s string
	if err := utiljson.Unmarshal(data, &s); err != nil {
		return "", false
	}
	return s, true
}

// isKey reports whether a key in the text has a name.
func isKey(key []byte, name string) bool {
	if len(key) >= 2 && plain(key) {
		return string(key[1:len(key)-1]) == name
	}
	s, ok := Text(key)
	return ok && s == name
}

// plain reports whether a string in the text needs no decoding.
func plain(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return false
	}
	return utf8.Valid(quoted)
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skip returns the end of the value that begins at i. It does not recurse, so deep values are safe.
func skip(data []byte, i int) int {
	for depth := 0; i < len(data); {
		switch data[i] {
		case '"':
			i = skipString(data, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i = skipWord(data, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// skipString returns the end of a string. It searches for quotes, which are rare, and does not read
// each byte. A quote after an odd number of backslashes is part of the string.
func skipString(data []byte, begin int) int {
	for i := begin + 1; i < len(data); i++ {
		k := bytes.IndexByte(data[i:], '"')
		if k < 0 {
			break
		}
		i += k
		backslashes := 0
		for j := i - 1; j > begin && data[j] == '\\'; j-- {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i + 1
		}
	}
	return len(data)
}

func skipWord(data []byte, i int) int {
	for ; i < len(data); i++ {
		switch data[i] {
		case ',', ':', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return i
}
