// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"strconv"
	"strings"
)

// MaxOperations is the maximum number of operations of a patch. The API server has the same limit.
const MaxOperations = 10_000

// Patch returns a JSON Patch (RFC 6902) that changes from into to, with the operations add, replace
// and remove. The patch is [] for equal texts. Values are copied from the text unchanged. If more
// than [MaxOperations] were needed, the patch replaces the whole value.
func Patch(from, to []byte) []byte {
	p := patcher{out: []byte{'['}}
	p.diff(from, to)
	if p.operations > MaxOperations {
		p = patcher{out: []byte{'['}}
		p.operation("replace", to)
	}
	return append(p.out, ']')
}

type patcher struct {
	out        []byte
	path       []byte // of the current value, escaped for a pointer but not for JSON
	operations int
}

func (p *patcher) diff(from, to []byte) {
	if bytes.Equal(from, to) {
		return
	}
	switch kind := KindOf(from); {
	case kind == Object && KindOf(to) == Object:
		p.objects(parse(from), parse(to))
	case kind == Array && KindOf(to) == Array:
		p.arrays(elements(from), elements(to))
	default:
		p.operation("replace", to)
	}
}

func (p *patcher) objects(from, to object) {
	done := make(map[string]bool)
	for i := range from.members {
		name := from.members[i].name
		if done[name] {
			continue // a repeated key: the last value counts
		}
		if len(from.members) > 1 {
			done[name] = true
		}
		was, is := from.find(name), to.find(name)
		p.at(name, func() {
			switch {
			case is == nil:
				p.operation("remove", nil)
			case name == "" && !bytes.Equal(was.value, is.value):
				// evanphx/json-patch v5, which Karmada uses, changes the wrong value below an empty
				// key.
				p.operation("replace", is.value)
			default:
				p.diff(was.value, is.value)
			}
		})
	}
	for i := range to.members {
		if m := &to.members[i]; from.find(m.name) == nil && to.find(m.name) == m {
			p.at(m.name, func() { p.operation("add", m.value) })
		}
	}
}

// arrays keeps equal elements at both ends, changes the elements between them, and removes or adds
// the rest.
func (p *patcher) arrays(from, to [][]byte) {
	begin, end := 0, 0
	for begin < len(from) && begin < len(to) && bytes.Equal(from[begin], to[begin]) {
		begin++
	}
	for end < len(from)-begin && end < len(to)-begin && bytes.Equal(from[len(from)-1-end], to[len(to)-1-end]) {
		end++
	}
	was, is := from[begin:len(from)-end], to[begin:len(to)-end]
	both := min(len(was), len(is))
	for i := range both {
		p.at(strconv.Itoa(begin+i), func() { p.diff(was[i], is[i]) })
	}
	for i := len(was) - 1; i >= both; i-- { // from the end, so indexes do not change
		p.at(strconv.Itoa(begin+i), func() { p.operation("remove", nil) })
	}
	for i := both; i < len(is); i++ {
		p.at(strconv.Itoa(begin+i), func() { p.operation("add", is[i]) })
	}
}

func (p *patcher) at(name string, f func()) {
	before := len(p.path)
	p.path = append(p.path, '/')
	if strings.ContainsAny(name, "~/") {
		name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name) // RFC 6901
	}
	p.path = append(p.path, name...)
	f()
	p.path = p.path[:before]
}

func (p *patcher) operation(op string, value []byte) {
	if p.operations++; p.operations > MaxOperations {
		return // the patch is not used
	}
	if len(p.out) > 1 {
		p.out = append(p.out, ',')
	}
	p.out = append(p.out, `{"op":"`...)
	p.out = append(p.out, op...)
	p.out = append(p.out, `","path":`...)
	p.out = AppendString(p.out, string(p.path))
	if value != nil {
		p.out = append(p.out, `,"value":`...)
		p.out = append(p.out, value...)
	}
	p.out = append(p.out, '}')
}
