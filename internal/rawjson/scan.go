// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rawjson reads and changes JSON text without decoding it as a whole: it finds members, decodes into typed
// objects with few allocations, merges what a typed object cannot hold, and makes JSON Patches.
//
// All functions that do not say otherwise take text that [Valid] accepts; on other text they return something, or an
// error, and do not panic.
package rawjson

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Valid reports whether data is one JSON value.
func Valid(data []byte) bool { return json.Valid(data) }

// Kind tells values apart.
type Kind byte

// The kinds of values. Invalid is for text that is none.
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

// Cursor goes through the members of an object or the elements of an array.
type Cursor struct {
	data []byte
	pos  int
	key  bool
}

// Open returns a cursor before the first member or element of a value; in other values there is none.
func Open(data []byte) Cursor {
	i := space(data, 0)
	if i >= len(data) || data[i] != '{' && data[i] != '[' {
		return Cursor{}
	}
	return Cursor{data: data, pos: i + 1, key: data[i] == '{'}
}

// Next returns the next member, its key as it stands in the text with its quotes, or the next element, without key.
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

// Member returns the value of an object's member, the last one where there are several. It is nil where there is none.
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

// Text returns the string in a value; false where it is no string.
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

// isKey compares a key of the text with a name.
func isKey(key []byte, name string) bool {
	if len(key) >= 2 && plain(key) {
		return string(key[1:len(key)-1]) == name
	}
	s, ok := Text(key)
	return ok && s == name
}

// plain reports whether a string stands in the text as it is.
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

// skip returns the end of the value that begins at i. It does not recurse, so depth costs nothing.
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

// skipString looks for quotes, which are rare, and not at each byte. One behind an odd number of backslashes is part of the
// string.
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
