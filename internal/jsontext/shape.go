// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import "reflect"

// shape is the Go type of a value.
type shape struct {
	t   reflect.Type // nil for an unknown type
	key string       // patchMergeKey of the field, for a list
}

// fields returns the type without pointers, and its layout. Both are nil if the text of the value
// does not show the fields of the type.
func (s shape) fields() (reflect.Type, *layout) {
	t := s.t
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return nil, nil
	}
	l := layoutOf(t)
	if l.unmarshaler || l.marshaler || l.foreign && l.byName == nil {
		return nil, nil
	}
	return t, l
}

// member returns the shape of a member, and whether the type is known to have it.
func (s shape) member(name string) (shape, bool) {
	t, l := s.fields()
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		if i, ok := l.byName[name]; ok {
			return l.fields[i].shape, true
		}
	case t.Kind() == reflect.Map:
		return shape{t: t.Elem()}, true
	}
	return shape{}, false
}

func (s shape) element() shape {
	if t, _ := s.fields(); t != nil && t.Kind() == reflect.Slice {
		return shape{t: t.Elem()}
	}
	return shape{}
}

// fixed reports whether a member is a struct in a struct: it can be empty, but not removed.
func (s shape) fixed(name string) bool {
	child, _ := s.member(name)
	outer, _ := s.fields()
	inner, _ := child.fields()
	return inner != nil && inner == child.t && inner.Kind() == reflect.Struct && outer.Kind() == reflect.Struct
}

// unknown reports whether raw has a field that the type does not have, at any depth. Before is the
// encoding of raw by the type. A value below [maxDepth] counts as unknown, because each level reads
// all levels below it again.
func unknown(raw, before []byte, s shape) bool { return unknownAt(raw, before, s, 0) }

func unknownAt(raw, before []byte, s shape, depth int) bool {
	if depth > maxDepth {
		return true
	}
	switch KindOf(raw) {
	case Object:
		b := parse(before)
		for c := Open(raw); c.Next(); {
			name, _ := Text(c.Key)
			child, known := s.member(name)
			var was []byte // empty for a zero value that the type omits
			if m := b.find(name); m != nil {
				was = m.value
			} else if !known {
				return true
			}
			if unknownAt(c.Value, was, child, depth+1) {
				return true
			}
		}
	case Array:
		b := elements(before)
		for i, e := range elements(raw) {
			var was []byte
			if i < len(b) {
				was = b[i]
			}
			if unknownAt(e, was, s.element(), depth+1) {
				return true
			}
		}
	}
	return false
}
