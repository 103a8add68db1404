// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// field is a field of a struct, with its name in JSON.
type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
	shape shape
}

type layout struct {
	unmarshaler bool // the type decodes itself
	foreign     bool // decoded by encoding/json
	marshaler   bool // the type encodes itself
	fields      []field
	byName      map[string]int
}

var (
	layouts         sync.Map // reflect.Type to *layout
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
	marshalerType   = reflect.TypeFor[json.Marshaler]()
	toTextType      = reflect.TypeFor[encoding.TextMarshaler]()
)

// layoutOf returns the layout of a type, which must not be a pointer.
func layoutOf(t reflect.Type) *layout {
	if known, ok := layouts.Load(t); ok {
		return known.(*layout)
	}
	l := &layout{}
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(unmarshalerType):
		l.unmarshaler = true
	case p.Implements(textType):
		l.foreign = true
	case t.Kind() == reflect.Struct:
		l.byName = map[string]int{}
		l.foreign = !l.collect(t, nil)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8, // base64, and its exceptions
		t.Kind() == reflect.Map && (t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textType)),
		t.Kind() == reflect.Array, t.Kind() == reflect.Interface,
		t.Kind() == reflect.Complex64, t.Kind() == reflect.Complex128:
		l.foreign = true
	}
	l.marshaler = p.Implements(marshalerType) || p.Implements(toTextType)
	known, _ := layouts.LoadOrStore(t, l)
	return known.(*layout)
}

// collect adds the fields of a struct and of its embedded structs. It returns false if
// encoding/json has special rules: for fields of one name, embedded pointers, or the option string.
func (l *layout) collect(t reflect.Type, index []int) bool {
	simple := true
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" {
			continue
		}
		at := append(append([]int{}, index...), i)
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && len(index) < maxEmbedded {
				simple = l.collect(inner, at) && inner == f.Type && f.IsExported() && simple
				continue
			}
			simple = false
		}
		if !f.IsExported() {
			continue
		}
		if strings.Contains(","+options+",", ",string,") {
			simple = false
		}
		if name == "" {
			name = f.Name
		}
		n, twice := l.byName[name]
		if twice {
			simple = false
			if len(l.fields[n].index) <= len(at) {
				continue // as in encoding/json, the outer field counts
			}
		} else {
			n = len(l.fields)
			l.fields = append(l.fields, field{})
		}
		l.byName[name] = n
		l.fields[n] = field{name, at, shape{f.Type, f.Tag.Get("patchMergeKey")}}
	}
	return simple
}

// maxEmbedded is the maximum depth of embedded structs, for a struct that embeds itself.
const maxEmbedded = 16
