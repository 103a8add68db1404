// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// field is a field of a struct, by the name that it has in JSON.
type field struct {
	name  string
	index []int // as for reflect.Value.FieldByIndex
}

// layout is how a type is decoded.
type layout struct {
	unmarshaler bool // the type decodes itself
	foreign     bool // left to encoding/json
	fields      []field
	byName      map[string]int
}

var (
	layouts         sync.Map // reflect.Type to *layout
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// layoutOf returns the layout of a type that is no pointer.
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
		if !l.collect(t, nil) {
			*l = layout{foreign: true}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8, // base64, and its exceptions
		t.Kind() == reflect.Map && (t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textType)),
		t.Kind() == reflect.Array, t.Kind() == reflect.Interface, t.Kind() == reflect.Complex64, t.Kind() == reflect.Complex128:
		l.foreign = true
	}
	known, _ := layouts.LoadOrStore(t, l)
	return known.(*layout)
}

// collect adds the fields of a struct and of those that it embeds. It is false for what encoding/json has rules of its
// own for: two fields of one name, embedded pointers, the option string.
func (l *layout) collect(t reflect.Type, index []int) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" {
			continue
		}
		at := append(append([]int{}, index...), i)
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct || !f.IsExported() || !l.collect(f.Type, at) {
				return false
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if strings.Contains(","+options+",", ",string,") {
			return false
		}
		if name == "" {
			name = f.Name
		}
		if _, twice := l.byName[name]; twice {
			return false
		}
		l.byName[name] = len(l.fields)
		l.fields = append(l.fields, field{name: name, index: at})
	}
	return true
}
