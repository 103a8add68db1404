// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/json"
)

// Merge returns raw with what changed from before to after, so that what before does not hold survives. Before is raw as
// a typed object writes it: a part of raw, with zero values added. Where raw is not changed, it is returned itself.
//
// Elements of lists are followed by their names (or other keys that tell them apart): an element that moves keeps what
// the type does not know, one that is new has nothing of it.
func Merge(raw, before, after []byte) []byte {
	if bytes.Equal(before, after) {
		return raw
	}
	return appendMerge(nil, raw, before, after)
}

func appendMerge(out, raw, before, after []byte) []byte {
	if bytes.Equal(before, after) {
		return append(out, raw...)
	}
	switch kind := KindOf(after); {
	case kind == Object && KindOf(raw) == Object && KindOf(before) == Object:
		return mergeObjects(out, raw, before, after)
	case kind == Array && KindOf(raw) == Array && KindOf(before) == Array:
		return mergeArrays(out, raw, before, after)
	}
	return append(out, after...)
}

var (
	emptyObject = []byte("{}")
	null        = []byte("null")
)

func mergeObjects(out, raw, before, after []byte) []byte {
	b, a := parse(before), parse(after)
	first := true
	put := func(name []byte) {
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(out, name...), ':')
	}
	out = append(out, '{')
	for c := Open(raw); ; {
		key, value, ok := c.Next()
		if !ok {
			break
		}
		name, _ := Text(key)
		was, is := b.find(name), a.find(name)
		switch {
		case is == nil && was != nil: // removed
		case is == nil: // unknown to the type
			put(key)
			out = append(out, value...)
		case was == nil: // the type left it out, as a zero value
			is.taken = true
			put(key)
			out = appendMerge(out, value, zeroOf(value), is.value)
		default:
			is.taken = true
			put(key)
			out = appendMerge(out, value, was.value, is.value)
		}
	}
	for i := range a.members {
		is := &a.members[i]
		if is.taken {
			continue
		}
		was := b.find(is.name)
		if was != nil && bytes.Equal(was.value, is.value) {
			continue // a zero value that only the type has
		}
		put(quote(is.name))
		if was != nil && KindOf(was.value) == Object && KindOf(is.value) == Object {
			out = appendMerge(out, emptyObject, was.value, is.value)
		} else {
			out = append(out, is.value...)
		}
	}
	return append(out, '}')
}

// zeroOf is what a type that leaves out an empty value would have written.
func zeroOf(value []byte) []byte {
	if KindOf(value) == Object {
		return emptyObject
	}
	return null
}

func quote(name string) []byte {
	out, err := json.Marshal(name)
	if err != nil {
		return []byte(`""`) // a string can always be encoded
	}
	return out
}

func mergeArrays(out, raw, before, after []byte) []byte {
	r, b, a := elements(raw), elements(before), elements(after)
	if len(r) != len(b) {
		return append(out, after...)
	}
	from := align(b, a)
	out = append(out, '[')
	for i, is := range a {
		if i > 0 {
			out = append(out, ',')
		}
		if j := from[i]; j >= 0 {
			out = appendMerge(out, r[j], b[j], is)
		} else {
			out = append(out, is...)
		}
	}
	return append(out, ']')
}

// align says for each element of after which one of before it was, or -1. Equal ones come first, in order; then those
// with equal identities; and where elements have no identity and the lists are of one length, those at one place.
func align(before, after [][]byte) []int {
	from := make([]int, len(after))
	taken := make([]bool, len(before))
	take := func(i, j int) { from[i] = j; taken[j] = true }
	for i := range after {
		from[i] = -1
		if i < len(before) && bytes.Equal(before[i], after[i]) {
			take(i, i)
		}
	}
	match(before, after, from, taken, func(e []byte) string { return string(e) })
	match(before, after, from, taken, identity)
	if len(before) == len(after) {
		for i := range after {
			if from[i] < 0 && !taken[i] && identity(after[i]) == "" && identity(before[i]) == "" {
				take(i, i)
			}
		}
	}
	return from
}

// match pairs elements that are left and have the same name that is not empty, in order.
func match(before, after [][]byte, from []int, taken []bool, name func([]byte) string) {
	var left map[string][]int
	for j, e := range before {
		if taken[j] {
			continue
		}
		if n := name(e); n != "" {
			if left == nil {
				left = map[string][]int{}
			}
			left[n] = append(left[n], j)
		}
	}
	if left == nil {
		return
	}
	for i, e := range after {
		if from[i] >= 0 {
			continue
		}
		if n := name(e); n != "" && len(left[n]) > 0 {
			j := left[n][0]
			left[n] = left[n][1:]
			from[i], taken[j] = j, true
		}
	}
}

// identities are the names of members that tell the elements of Kubernetes lists apart, the most telling first.
var identities = []string{"name", "key", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "uid", "topologyKey", "clusterName", "path"}

// identity is the first of them that an element has, with its value.
func identity(element []byte) string {
	if KindOf(element) != Object {
		return ""
	}
	for _, name := range identities {
		if value := Member(element, name); value != nil {
			return name + "=" + string(value)
		}
	}
	return ""
}
