// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package losslesstest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// editor edits a tree as a handler edits an object. New values are unique.
type editor struct {
	*rand.Rand
	root  *node
	count int // number of new values
	log   []string
}

// place is a value with its parent. The metadata and the scalar fields of the root have no place.
type place struct {
	n, parent *node
}

func (e *editor) places(want func(place) bool) []place {
	var out []place
	var walk func(n *node)
	walk = func(n *node) {
		for i, child := range n.children {
			scalar := child.kind != jsontext.Object && child.kind != jsontext.Array
			if n == e.root && (n.names[i] == "metadata" || scalar) {
				continue
			}
			if p := (place{child, n}); want(p) {
				out = append(out, p)
			}
			walk(child)
		}
	}
	walk(e.root)
	return out
}

// any returns a random place, or false if no place matches.
func (e *editor) any(want func(place) bool) (place, bool) {
	all := e.places(want)
	if len(all) == 0 {
		return place{}, false
	}
	return all[e.IntN(len(all))], true
}

// edits are the edits with their weights.
var edits = []struct {
	name   string
	weight int
	apply  func(*editor) bool
}{
	{"swap", 4, onList(2, func(_ *editor, l *node, i, j int) {
		l.children[i], l.children[j] = l.children[j], l.children[i]
	})},
	{"move", 2, onList(2, func(_ *editor, l *node, i, j int) {
		moved := l.children[i]
		l.children = slices.Insert(slices.Delete(l.children, i, i+1), j, moved)
	})},
	{"insert", 3, onList(0, func(e *editor, l *node, i, _ int) {
		if added := e.element(l); added != nil {
			l.children = slices.Insert(l.children, min(i, len(l.children)), added)
		}
	})},
	{"delete", 3, onList(1, func(_ *editor, l *node, i, _ int) {
		if !l.children[i].untouched {
			l.children = slices.Delete(l.children, i, i+1)
		}
	})},
	{"duplicate", 1, onList(1, func(_ *editor, l *node, i, j int) {
		l.children = slices.Insert(l.children, j, l.children[i].duplicate())
	})},
	{"change", 5, (*editor).change},
	{"change key", 2, (*editor).changeKey},
	{"clear", 1, (*editor).clear},
	{"delete from map", 1, func(e *editor) bool {
		p, ok := e.any(func(p place) bool { return p.parent.t != nil && p.parent.t.Kind() == reflect.Map })
		if ok {
			p.parent.remove(p.n)
		}
		return ok
	}},
}

func (e *editor) edit() {
	total := 0
	for _, edit := range edits {
		total += edit.weight
	}
	n := e.IntN(total)
	for _, edit := range edits {
		if n -= edit.weight; n < 0 {
			if edit.apply(e) {
				e.log = append(e.log, edit.name)
			}
			return
		}
	}
}

// onList edits a list with at least the given number of elements, at two random indexes.
func onList(least int, f func(e *editor, l *node, i, j int)) func(*editor) bool {
	return func(e *editor) bool {
		p, ok := e.any(func(p place) bool { return p.n.list() && len(p.n.children) >= least })
		if ok {
			n := max(1, len(p.n.children))
			f(e, p.n, e.IntN(n), e.IntN(n))
		}
		return ok
	}
}

// element returns a new element of a list. It is a copy of another element, with new values.
func (e *editor) element(l *node) *node {
	of := l
	if len(of.children) == 0 && l.was != nil {
		of = l.was
	}
	if len(of.children) == 0 {
		return nil
	}
	out := of.children[e.IntN(len(of.children))].duplicate()
	out.forget()
	out.walk(func(n *node) {
		n.unknown = ""
		e.renew(n)
	})
	return out
}

// renew sets a string or a number to a new value. It reports whether the value is a string or a
// number.
func (e *editor) renew(n *node) bool {
	if n.t == nil {
		return false
	}
	e.count++
	switch n.t.Kind() {
	case reflect.String:
		n.kind, n.text = jsontext.String, fmt.Sprintf(`"new%d"`, e.count)
	case reflect.Int32, reflect.Int64, reflect.Int:
		n.kind, n.text = jsontext.Number, strconv.Itoa(10_000+e.count)
	default:
		return false
	}
	return true
}

func isScalar(n *node) bool {
	return n.t != nil && (n.kind == jsontext.String || n.kind == jsontext.Number)
}

// change sets a field to a new value, or to its zero value. Keys do not change.
func (e *editor) change() bool {
	p, ok := e.any(func(p place) bool {
		return isScalar(p.n) && (!p.parent.structure() || !slices.Contains(p.parent.key, p.parent.nameOf(p.n)))
	})
	if !ok {
		return false
	}
	if p.n.optional && e.IntN(8) == 0 {
		p.parent.remove(p.n)
		return true
	}
	return e.renew(p.n)
}

// changeKey sets the key of an element to a new key or to the key of another element, or removes
// it. An element with another key is another element.
func (e *editor) changeKey() bool {
	p, ok := e.any(func(p place) bool {
		return p.n.structure() && p.parent.list() && p.n.keyText() != "" && !p.n.untouched
	})
	if !ok {
		return false
	}
	name := p.n.key[e.IntN(len(p.n.key))]
	value := p.n.member(name)
	if value == nil {
		return false
	}
	switch e.IntN(6) {
	case 0: // no key: the element is the same, but the lists do not show it
		if !value.optional || len(p.n.key) > 1 {
			return false
		}
		p.n.remove(value)
		return true
	case 1:
		other := p.parent.children[e.IntN(len(p.parent.children))]
		differ := func(name string) bool { return (other.member(name) == nil) != (p.n.member(name) == nil) }
		if other == p.n || other.was == nil || other.keyText() == "" || slices.ContainsFunc(p.n.key, differ) {
			return false
		}
		for _, name := range p.n.key {
			if to := p.n.member(name); to != nil {
				to.text = other.member(name).text
			}
		}
		other.untouched = true
	default:
		e.renew(value)
	}
	p.n.forget()
	return true
}

// clear removes all elements of a list, an optional struct, or all fields of another struct.
func (e *editor) clear() bool {
	p, ok := e.any(func(p place) bool {
		fixed := slices.ContainsFunc(p.n.children, func(n *node) bool { return n.untouched })
		return (p.n.list() || p.n.structure() && p.parent.structure()) && p.n.optional && !fixed
	})
	if !ok {
		return false
	}
	if p.n.list() || p.n.pointer {
		p.parent.remove(p.n)
		return true
	}
	for _, child := range slices.Clone(p.n.children) {
		if child.optional {
			p.n.remove(child)
		}
	}
	return true
}

func (n *node) nameOf(child *node) string {
	if i := slices.Index(n.children, child); i >= 0 && i < len(n.names) {
		return n.names[i]
	}
	return ""
}

func (n *node) remove(child *node) {
	i := slices.Index(n.children, child)
	n.children = slices.Delete(n.children, i, i+1)
	if n.kind == jsontext.Object {
		n.names = slices.Delete(n.names, i, i+1)
	}
}
