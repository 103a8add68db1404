// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
)

// Merge applies the changes from before to after to raw, and keeps the content of raw that before
// does not have. Before is the encoding of raw as an object of type t: a part of raw, with zero
// values added. Type t may be nil. If before and after are equal, Merge returns raw itself.
//
// [match] describes how Merge follows the elements of a list. If the unknown fields of an element
// would be lost or might move to another element, Merge returns an [*UncertainError]. If drop is
// set, it drops the fields instead.
func Merge(raw, before, after []byte, t reflect.Type, drop bool) ([]byte, error) {
	if bytes.Equal(before, after) {
		return raw, nil
	}
	return merger{drop}.value(nil, raw, before, after, shape{t: t})
}

// UncertainError is returned for an element with unknown fields, if it is uncertain which element
// of the changed list it is.
type UncertainError struct {
	Path string // of the element before the change: spec.rules[1]
}

func (e *UncertainError) Error() string {
	return e.Path + " has unknown fields, and the changed list does not show which element it is now"
}

// below adds the parent to the path of an error.
func below(parent string, err error) error {
	if e, ok := errors.AsType[*UncertainError](err); ok {
		if e.Path != "" && e.Path[0] != '[' {
			parent += "."
		}
		e.Path = parent + e.Path
	}
	return err
}

type merger struct{ drop bool }

func (m merger) value(out, raw, before, after []byte, s shape) ([]byte, error) {
	if bytes.Equal(before, after) {
		return append(out, raw...), nil
	}
	switch kind := KindOf(after); {
	case kind == Object && KindOf(raw) == Object && KindOf(before) == Object:
		return m.objects(out, raw, before, after, s)
	case kind == Array && KindOf(raw) == Array && KindOf(before) == Array:
		return m.arrays(out, raw, before, after, s)
	}
	return append(out, after...), nil
}

var (
	emptyObject = []byte("{}")
	emptyArray  = []byte("[]")
	null        = []byte("null")
)

func (m merger) objects(out, raw, before, after []byte, s shape) ([]byte, error) {
	b, a := parse(before), parse(after)
	out = append(out, '{')
	start := len(out)
	for c := Open(raw); c.Next(); {
		value := c.Value
		name, _ := Text(c.Key)
		was, is := b.find(name), a.find(name)
		from, to := zeroOf(value), emptyObject // the type omits a zero value
		if was != nil {
			from = was.value
		}
		switch {
		case is != nil:
			is.taken = true
			to = is.value
		case was == nil: // unknown to the type
			to = from
		default:
			child, _ := s.member(name)
			if !s.fixed(name) || !unknown(value, was.value, child) {
				continue // removed
			}
		}
		out = append(append(comma(out, start), c.Key...), ':')
		if bytes.Equal(from, to) {
			out = append(out, value...)
			continue
		}
		child, _ := s.member(name)
		var err error
		if out, err = m.value(out, value, from, to, child); err != nil {
			return nil, below(name, err)
		}
	}
	out, err := m.added(out, start, b, a)
	return append(out, '}'), err
}

// added appends the members of after that raw does not have to an object that begins at start.
func (m merger) added(out []byte, start int, before, after object) ([]byte, error) {
	for i := range after.members {
		is := &after.members[i]
		was := before.find(is.name)
		if is.taken || was != nil && bytes.Equal(was.value, is.value) {
			continue // a zero value that only the type has
		}
		out = append(AppendString(comma(out, start), is.name), ':')
		if was == nil || KindOf(was.value) != Object || KindOf(is.value) != Object {
			out = append(out, is.value...)
			continue
		}
		var err error
		if out, err = m.value(out, emptyObject, was.value, is.value, shape{}); err != nil {
			return nil, below(is.name, err)
		}
	}
	return out, nil
}

func comma(out []byte, start int) []byte {
	if len(out) > start {
		out = append(out, ',')
	}
	return out
}

// zeroOf returns the encoding of the empty value that a type may omit.
func zeroOf(value []byte) []byte {
	switch KindOf(value) {
	case Object:
		return emptyObject
	case Array:
		return emptyArray
	}
	return null
}

func (m merger) arrays(out, raw, before, after []byte, s shape) ([]byte, error) {
	r, b, a := elements(raw), elements(before), elements(after)
	element := s.element()
	if len(r) != len(b) { // so it is unknown which elements are the same
		for j := range r {
			if !m.drop && unknown(r[j], nil, element) {
				return nil, &UncertainError{"[" + strconv.Itoa(j) + "]"}
			}
		}
		return append(out, after...), nil
	}
	l := match(r, b, a, s.key)
	for _, j := range l.open() {
		switch {
		case unknown(r[j], b[j], element):
			if !m.drop {
				return nil, &UncertainError{"[" + strconv.Itoa(j) + "]"}
			}
		case j < len(a) && l.from[j] < 0 && l.possible(j, j):
			l.take(j, j) // it has no unknown fields
		}
	}
	out = append(out, '[')
	for i, is := range a {
		if i > 0 {
			out = append(out, ',')
		}
		j := l.from[i]
		if j < 0 {
			out = append(out, is...)
			continue
		}
		var err error
		if out, err = m.value(out, r[j], b[j], is, element); err != nil {
			return nil, below("["+strconv.Itoa(j)+"]", err)
		}
	}
	return append(out, ']'), nil
}
