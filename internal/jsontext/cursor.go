// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import "bytes"

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
	i := skipSpace(data, 0)
	if i >= len(data) {
		return Invalid
	}
	switch data[i] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return Invalid
}

// Cursor iterates over the members of an object or the elements of an array:
//
//	for c := Open(data); c.Next(); {
type Cursor struct {
	// Key is the key of the present member, with its quotes. Elements have no key.
	Key []byte
	// Value is the present value.
	Value []byte

	data    []byte
	pos     int
	members bool
}

// Open returns a cursor before the first member or element of a value. For other values, the cursor
// is at its end.
func Open(data []byte) Cursor {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' && data[i] != '[' {
		return Cursor{}
	}
	return Cursor{data: data, pos: i + 1, members: data[i] == '{'}
}

// Next moves to the next member or element. It returns false at the end.
func (c *Cursor) Next() bool {
	p, ok := c.next()
	c.Key, c.Value = c.data[p.key:p.keyEnd], c.data[p.begin:p.end]
	return ok
}

// place has the positions of a member or element. The key of an element is empty.
type place struct{ key, keyEnd, begin, end int }

func (c *Cursor) next() (p place, ok bool) {
	i := skipSpace(c.data, c.pos)
	if i < len(c.data) && c.data[i] == ',' {
		i = skipSpace(c.data, i+1)
	}
	if i >= len(c.data) || c.data[i] == '}' || c.data[i] == ']' {
		return p, false
	}
	if c.members {
		p.key, p.keyEnd = i, skip(c.data, i)
		i = skipSpace(c.data, p.keyEnd)
		if i >= len(c.data) || c.data[i] != ':' {
			return p, false
		}
		i = skipSpace(c.data, i+1)
	}
	p.begin, p.end = i, skip(c.data, i)
	c.pos = p.end
	return p, p.end > p.begin // otherwise it is not JSON
}

// Member returns the value of a member of an object, or nil. If a name is repeated, the last value
// counts.
func Member(data []byte, name string) []byte {
	if KindOf(data) != Object {
		return nil
	}
	var found []byte
	for c := Open(data); c.Next(); {
		if isKey(c.Key, name) {
			found = c.Value
		}
	}
	return found
}

func isKey(key []byte, name string) bool {
	if len(key) >= 2 && plain(key) {
		return string(key[1:len(key)-1]) == name
	}
	s, ok := Text(key)
	return ok && s == name
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

// skipString returns the end of a string. A quote after an odd number of backslashes is part of it.
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
