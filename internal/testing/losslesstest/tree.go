// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package losslesstest

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// node is a value of an object.
type node struct {
	t         reflect.Type // without pointers; nil if the type encodes itself
	optional  bool         // the type omits an empty value
	pointer   bool
	kind      jsontext.Kind
	text      string // of a value without children
	names     []string
	children  []*node
	key       []string // of the elements of a list, or of the list that has this element
	unknown   string   // the value of the unknown field of a struct, or empty
	position  int      // of the unknown field
	was       *node    // the value before the edits, nil for a new value
	copied    *node    // the value before the edits that this is a copy of
	untouched bool     // the element must stay, because another element has its key now
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// parse returns the tree of a value that the type has encoded.
func parse(text []byte, t reflect.Type, keys Keys) *node {
	n := &node{kind: jsontext.KindOf(text), text: string(text)}
	for t != nil && t.Kind() == reflect.Pointer {
		t, n.pointer = t.Elem(), true
	}
	if t == nil || reflect.PointerTo(t).Implements(marshaler) || reflect.PointerTo(t).Implements(textMarshaler) {
		return n
	}
	n.t = t
	if n.kind != jsontext.Object && n.kind != jsontext.Array {
		return n
	}
	n.text = ""
	if n.kind == jsontext.Array {
		n.key = keys[indirect(t.Elem())]
	}
	for c := jsontext.Open(text); c.Next(); {
		value := c.Value
		name, _ := jsontext.Text(c.Key)
		var child *node
		if t.Kind() == reflect.Struct {
			f, _ := fieldOf(t, name)
			child = parse(value, f.Type, keys)
			child.optional = strings.Contains(f.Tag.Get("json"), ",omit")
		} else {
			child = parse(value, t.Elem(), keys)
		}
		if n.kind == jsontext.Object {
			n.names = append(n.names, name)
		} else if child.kind == jsontext.Object {
			child.key = n.key
		}
		n.children = append(n.children, child)
	}
	return n
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// fieldOf finds the field with a JSON name, also in embedded structs.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		own, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if own == name {
			return f, true
		}
		if f.Anonymous && own == "" {
			if inner, ok := fieldOf(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return reflect.StructField{}, false
}

// clone copies a tree. Each node points to its original.
func (n *node) clone() *node {
	out := *n
	out.was, out.unknown = n, ""
	out.names = slices.Clone(n.names)
	out.children = nil
	for _, child := range n.children {
		out.children = append(out.children, child.clone())
	}
	return &out
}

// duplicate returns an equal new value.
func (n *node) duplicate() *node {
	out := *n
	if out.was != nil {
		out.was, out.copied = nil, n.was
	}
	out.untouched = false
	out.names = slices.Clone(n.names)
	out.children = nil
	for _, child := range n.children {
		out.children = append(out.children, child.duplicate())
	}
	return &out
}

// walk calls f for a value and all its descendants.
func (n *node) walk(f func(*node)) {
	f(n)
	for _, child := range n.children {
		child.walk(f)
	}
}

// forget turns a value into a new value.
func (n *node) forget() {
	n.walk(func(n *node) { n.was, n.copied = nil, nil })
}

func (n *node) member(name string) *node {
	if i := slices.Index(n.names, name); i >= 0 {
		return n.children[i]
	}
	return nil
}

func (n *node) structure() bool {
	return n.kind == jsontext.Object && n.t != nil && n.t.Kind() == reflect.Struct
}

func (n *node) list() bool { return n.kind == jsontext.Array && n.t != nil }

// keyText returns the key of an element, or "".
func (n *node) keyText() string {
	var out []string
	for i, name := range n.key {
		value := n.member(name)
		switch {
		case value != nil && value.text != "" && value.text != `""`:
			out = append(out, value.text)
		case i == 0:
			return ""
		case name == "protocol":
			out = append(out, `"TCP"`)
		default:
			out = append(out, "")
		}
	}
	return strings.Join(out, " ")
}

// encode appends the JSON text, with or without the unknown fields.
func (n *node) encode(out []byte, unknown bool) []byte {
	switch {
	case n.t == nil || n.kind != jsontext.Object && n.kind != jsontext.Array:
		return append(out, n.text...)
	case n.kind == jsontext.Array:
		out = append(out, '[')
		for i, child := range n.children {
			if i > 0 {
				out = append(out, ',')
			}
			out = child.encode(out, unknown)
		}
		return append(out, ']')
	}
	first := true
	put := func(name string) {
		if !first {
			out = append(out, ',')
		}
		first = false
		quoted, _ := json.Marshal(name)
		out = append(append(out, quoted...), ':')
	}
	out = append(out, '{')
	for i := range len(n.children) + 1 {
		if unknown && n.unknown != "" && i == min(n.position, len(n.children)) {
			put(Unknown)
			out = append(out, n.unknown...)
		}
		if i < len(n.children) && !n.children[i].left() {
			put(n.names[i])
			out = n.children[i].encode(out, unknown)
		}
	}
	return append(out, '}')
}

// left reports whether the type omits the value.
func (n *node) left() bool {
	empty := n.list() || n.t != nil && n.t.Kind() == reflect.Map
	return n.optional && empty && len(n.children) == 0
}

func (n *node) String() string { return string(n.encode(nil, false)) }
