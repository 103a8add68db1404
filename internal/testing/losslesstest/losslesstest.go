// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package losslesstest makes random edits of typed objects for property tests. It tracks each
// element of a list, so it can check the places of the unknown fields of an object after an edit.
package losslesstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// Unknown is the name of the unknown field that structs of an object have. Each such field has a
// different value.
const Unknown = "notKnown"

// Keys are the names of the keys of list elements, by the type of the elements. Elements of other
// types have no key.
type Keys map[reflect.Type][]string

// Case is an object with a typed edit.
type Case struct {
	Raw    []byte // the object with unknown fields
	Before []byte // the object as its type encodes it
	After  []byte // Before with the edits
	// Certain is true if unknown fields cannot be lost or move: nothing is both removed and added
	// in a list without unique keys.
	Certain bool

	t             reflect.Type
	before, after *node
	edits         []string
}

// New returns a random case for a seed. Lists of the sample may lose an element or get an element
// twice.
func New(seed uint64, sample any, keys Keys) *Case {
	random := rand.New(rand.NewPCG(seed, 0))
	c := &Case{t: reflect.TypeOf(sample).Elem(), Certain: true}
	c.before = parse(c.typed(mustEncode(sample)), c.t, keys)
	e := &editor{Rand: random, root: c.before}
	if e.IntN(4) > 0 {
		e.vary()
	}
	e.mark()
	c.Raw, c.Before = c.before.encode(nil, true), c.typed(c.before.encode(nil, false))
	if plain := c.before.encode(nil, false); !bytes.Equal(plain, c.Before) {
		panic(fmt.Sprintf("the type encodes\n%s\nas\n%s", plain, c.Before))
	}
	c.after = c.before.clone()
	e.root = c.after
	for range 1 + e.IntN(4) {
		e.edit()
	}
	c.edits = e.log
	c.After = c.typed(c.after.encode(nil, false))
	c.identify(c.after)
	if !c.Certain && c.before.uniqueKeys() && c.after.uniqueKeys() {
		panic("all keys are unique, and the case is not certain")
	}
	return c
}

func mustEncode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// typed returns a JSON text as the type encodes it.
func (c *Case) typed(text []byte) []byte {
	v := reflect.New(c.t)
	if err := json.Unmarshal(text, v.Interface()); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return mustEncode(v.Interface())
}

// vary removes and duplicates elements of lists. Lists with keys are duplicated rarely.
func (e *editor) vary() {
	duplicates := e.IntN(2) == 0
	for _, p := range e.places(func(p place) bool { return p.n.list() && len(p.n.children) > 0 }) {
		l, i := p.n, e.IntN(len(p.n.children))
		switch {
		case e.IntN(4) == 0 && len(l.children) > 1:
			l.children = slices.Delete(l.children, i, i+1)
		case duplicates && (l.key == nil && e.IntN(3) == 0 || e.IntN(16) == 0):
			l.children = slices.Insert(l.children, e.IntN(len(l.children)), l.children[i].duplicate())
		}
	}
}

// mark adds an unknown field to structs: to all of them, to some or to none.
func (e *editor) mark() {
	rarity, n := []int{1, 2, 8, 1000}[e.IntN(4)], 0
	e.root.walk(func(s *node) {
		if !s.structure() || e.IntN(rarity) > 0 {
			return
		}
		n++
		s.unknown = fmt.Sprintf([]string{`%d`, `{"of":%d}`, `[{"name":"a","of":%d}]`, `"%d"`}[e.IntN(4)], n)
		s.position = e.IntN(8)
	})
}

// identify matches elements before and after an edit as the documentation defines, where the edit
// is ambiguous. An element is the element that had its key. Equal elements match in their order.
func (c *Case) identify(n *node) {
	if n.list() && n.was != nil {
		c.identifyElements(n)
	}
	for _, child := range n.children {
		c.identify(child)
	}
}

func (c *Case) identifyElements(l *node) {
	was, is := group(l.was.children, (*node).keyText), group(l.children, (*node).keyText)
	uncertain := map[*node]bool{}
	for _, n := range l.children {
		key := n.keyText()
		if key == "" || len(is[key]) > 1 || len(was[key]) != 1 {
			uncertain[n] = true
			continue
		}
		switch original := was[key][0]; {
		case n.was == original:
		case n.copied == original:
			for _, other := range l.children {
				if other.was == original {
					other.forget()
				}
			}
			n.walk(func(n *node) { n.was, n.copied = n.copied, nil })
		default:
			panic("an element got the key of a removed one")
		}
	}
	texts := group(l.children, func(n *node) string {
		if uncertain[n] {
			return n.String()
		}
		return ""
	})
	var gone []*node
	for text, before := range group(l.was.children, (*node).String) {
		after := texts[text]
		if len(after) != len(before) {
			gone = append(gone, before...)
			continue
		}
		delete(texts, text)
		for _, other := range l.children {
			if slices.Contains(before, other.was) {
				other.forget()
			}
		}
		for i, n := range after {
			key, optional := n.key, n.optional
			*n = *before[i].clone()
			n.key, n.optional = key, optional
		}
	}
	delete(texts, "")
	for _, n := range gone {
		key := n.keyText()
		unique := key != "" && len(was[key]) == 1 && len(is[key]) == 1
		for _, added := range texts {
			if n.marked() && !unique && possible(n, added[0]) {
				c.Certain = false
			}
		}
	}
}

// possible reports whether two elements can be the same by their keys.
func possible(a, b *node) bool {
	return a.keyText() == b.keyText() || a.keyText() == "" || b.keyText() == ""
}

// uniqueKeys reports whether all structs in lists have unique keys.
func (n *node) uniqueKeys() bool {
	unique := true
	n.walk(func(l *node) {
		if !l.list() {
			return
		}
		keys := group(l.children, (*node).keyText)
		for _, child := range l.children {
			unique = unique && (!child.structure() || child.keyText() != "" && len(keys[child.keyText()]) == 1)
		}
	})
	return unique
}

func group(elements []*node, name func(*node) string) map[string][]*node {
	out := map[string][]*node{}
	for _, n := range elements {
		out[name(n)] = append(out[name(n)], n)
	}
	return out
}

// marked reports whether a value has an unknown field at any depth.
func (n *node) marked() bool {
	found := false
	n.walk(func(n *node) { found = found || n.unknown != "" })
	return found
}

// String returns the object and its edits.
func (c *Case) String() string {
	return fmt.Sprintf("edits  %v\nraw    %s\nbefore %s\nafter  %s", c.edits, c.Raw, c.Before, c.After)
}

// Judge returns an error if merged is not After with the unknown fields of Raw. Each struct that
// still exists must have its own unknown field. If drop is true and the case is not certain,
// unknown fields may be missing.
func (c *Case) Judge(merged []byte, drop bool) error {
	problem := func(err error) error { return fmt.Errorf("%w\n%s\nmerged %s", err, c, merged) }
	if !json.Valid(merged) {
		return problem(errors.New("the result is not JSON"))
	}
	if typed := c.typed(merged); !bytes.Equal(typed, c.After) {
		return problem(fmt.Errorf("the type reads the result as %s", typed))
	}
	if err := c.after.judge(merged, drop && !c.Certain); err != nil {
		return problem(err)
	}
	return nil
}

func (n *node) judge(merged []byte, drop bool) error {
	if n.structure() {
		want := ""
		if n.was != nil {
			want = n.was.unknown
		}
		got := string(jsontext.Member(merged, Unknown))
		if got != want && (!drop || got != "") {
			return fmt.Errorf("the unknown field of %s is %q, want %q", n, got, want)
		}
	}
	switch n.kind {
	case jsontext.Object:
		for i, child := range n.children {
			if err := child.judge(jsontext.Member(merged, n.names[i]), drop); err != nil {
				return err
			}
		}
	case jsontext.Array:
		c := jsontext.Open(merged)
		for _, child := range n.children {
			c.Next()
			if err := child.judge(c.Value, drop); err != nil {
				return err
			}
		}
	}
	return nil
}
