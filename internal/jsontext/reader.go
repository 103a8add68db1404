// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"strconv"
)

// Reader reads JSON text and returns values as slices of it. It validates all text that it passes,
// each byte once:
//
//	for r.Open('{'); r.Member(); {
//		switch string(r.Key) {
//		case "wanted":
//			raw := r.Value()
//		default:
//			r.Value()
//		}
//	}
//	err := r.Err()
//
// It keeps the first error. After an error, Member and Element report the end, and Value returns
// nil.
type Reader struct {
	// Key is the key of the current member, unescaped; it may share memory with the text.
	Key []byte

	data []byte
	pos  int
	// levels is the number of containers that can still be opened, fresh whether the innermost has
	// had no entry yet.
	levels                int
	fresh                 bool
	elements, maxElements int // counted
	err                   error
}

// NewReader returns a reader of a text with at most the given nesting depth, and at most the given
// number of counted elements.
func NewReader(data []byte, depth, elements int) Reader {
	return Reader{data: data, levels: depth, maxElements: elements}
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Fail sets the error at the present position, unless there is one.
func (r *Reader) Fail(reason string) { r.fail(r.pos, reason) }

func (r *Reader) fail(at int, reason string) {
	if r.err == nil {
		r.err = &SyntaxError{offset: at, reason: reason}
	}
}

// Peek returns the next byte that is not space, 0 at the end.
func (r *Reader) Peek() byte {
	r.pos = skipSpace(r.data, r.pos)
	if r.err != nil || r.pos >= len(r.data) {
		return 0
	}
	return r.data[r.pos]
}

// Open enters the object or array at the present position; start is '{' or '['.
func (r *Reader) Open(start byte) {
	switch {
	case r.Peek() == start:
	case start == '{':
		r.fail(r.pos, reasonObject)
	default:
		r.fail(r.pos, reasonArray)
	}
	if r.levels--; r.levels < 0 {
		r.fail(r.pos, reasonDepth)
	}
	r.pos++
	r.fresh = true
}

// Member moves to the value of the object's next member and sets Key. It leaves the object at its
// end.
func (r *Reader) Member() bool {
	if !r.next('}') {
		return false
	}
	start := r.pos
	end, reason := scanKey(r.data, start)
	if reason != "" {
		r.fail(end, reason)
		return false
	}
	r.pos = end
	quote := bytes.LastIndexByte(r.data[start:end], '"') // only space and the colon follow it
	r.Key = Unquote(r.data[start : start+quote+1])
	return true
}

// Element moves to the array's next element. It leaves the array at its end.
func (r *Reader) Element() bool { return r.next(']') && r.Count(1) }

// Count counts elements of lists and members of maps, and reports whether there are no more than
// allowed.
func (r *Reader) Count(n int) bool {
	if r.elements += n; r.elements > r.maxElements && r.err == nil {
		reason := "more than " + strconv.Itoa(r.maxElements) + " elements"
		r.err = &SyntaxError{offset: r.pos, reason: reason, TooMany: true}
	}
	return r.err == nil
}

// next moves past the comma before the next entry, or leaves the container.
func (r *Reader) next(closing byte) bool {
	b := r.Peek()
	switch {
	case r.err != nil:
		return false
	case b == closing:
		r.pos++
		r.levels++
		r.fresh = false
		return false
	case r.fresh:
		r.fresh = false
		return true
	case r.pos >= len(r.data):
		r.fail(r.pos, reasonEnd)
		return false
	case b != ',':
		r.fail(r.pos, reasonComma)
		return false
	}
	r.pos = skipSpace(r.data, r.pos+1)
	return true
}

// Value moves past the value at the present position and returns it. Appending to the result never
// overwrites the following text.
func (r *Reader) Value() []byte {
	r.Peek()
	if r.err != nil {
		return nil
	}
	start := r.pos
	end, reason := scanValue(r.data, start, r.levels)
	if reason != "" {
		r.fail(end, reason)
		return nil
	}
	r.pos = end
	return r.data[start:end:end]
}

// Rest returns the text from the present position.
func (r *Reader) Rest() []byte { return r.data[min(r.pos, len(r.data)):] }

// End checks that only space is left, and returns the first error.
func (r *Reader) End() error {
	if r.Peek(); r.err == nil && r.pos < len(r.data) {
		r.fail(r.pos, reasonMore)
	}
	return r.err
}
