// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"slices"
)

// identities are the names of members that can be the key of a list, in the order of preference.
var identities = []string{
	"name", "key", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "uid", "topologyKey",
	"clusterName", "path", "hostname",
}

// ranks maps each identity to its index.
var ranks = func() map[string]int {
	out := map[string]int{}
	for i, name := range identities {
		out[name] = i
	}
	return out
}()

// seconds maps members that are a key only with another member to that member and its default.
var seconds = map[string]struct{ name, zero string }{
	"containerPort": {"protocol", `"TCP"`},
	"port":          {"protocol", `"TCP"`},
	"topologyKey":   {"whenUnsatisfiable", ""},
	"status":        {"reason", ""},
}

// list has the changes of a list.
type list struct {
	beforeKeys, afterKeys [][]byte // of each element; empty if it has no key
	from                  []int    // the index in before of each element of after, or -1
	gone                  []bool   // whether an element of before was not found in after
}

// match follows each element of a list from before to after, but not by its position. Raw are the
// elements of before as they were sent. Key is the name of the key, or empty.
//
//  1. Elements with the same key are the same element, if the key is unique before and after.
//  2. Equal elements are the same elements, in order, if there are as many of them after as before.
//
// Other elements may be the same or not: see [list.open].
func match(raw, before, after [][]byte, key string) *list {
	l := &list{from: make([]int, len(after)), gone: make([]bool, len(before))}
	l.beforeKeys, l.afterKeys = keys(before, after, key)
	if sameKeys(l.beforeKeys, l.afterKeys) {
		for i := range l.from {
			l.from[i] = i
		}
		return l
	}
	for i := range l.from {
		l.from[i] = -1
	}
	for j := range l.gone {
		l.gone[j] = true
	}
	if l.pair(l.beforeKeys, l.afterKeys, func(was []int, n int) bool { return n == 1 && len(was) == 1 }) {
		return l
	}
	l.pair(before, after, func(was []int, n int) bool { return n == len(was) || n < len(was) && same(raw, was) })
	return l
}

// sameKeys reports whether all keys are in place and unique. For long lists [list.pair] is faster.
func sameKeys(before, after [][]byte) bool {
	if len(before) != len(after) || len(before) > 32 {
		return false
	}
	for i, key := range before {
		if len(key) == 0 || !bytes.Equal(key, after[i]) {
			return false
		}
		for _, other := range before[:i] {
			if bytes.Equal(key, other) {
				return false
			}
		}
	}
	return true
}

// pair pairs elements of the same name, in order, if certain is true for the elements of before and
// the number of elements of after. It returns whether all elements are paired.
func (l *list) pair(before, after [][]byte, certain func(was []int, n int) bool) bool {
	type group struct {
		first, was, n, used int // the elements of before are indexes[first:first+was]
	}
	numbers := make(map[string]int, len(before)) // of groups, by name
	groups := make([]group, 0, len(before))
	of := make([]int, len(before)) // the group of each element
	for j, name := range before {
		of[j] = -1
		if len(name) == 0 || !l.gone[j] {
			continue
		}
		n, ok := numbers[string(name)]
		if !ok {
			n = len(groups)
			numbers[string(name)] = n
			groups = append(groups, group{})
		}
		of[j] = n
		groups[n].was++
	}
	end := 0
	for n := range groups {
		groups[n].first, end = end, end+groups[n].was
	}
	indexes := make([]int, end)
	for j, n := range of {
		if n >= 0 {
			g := &groups[n]
			indexes[g.first+g.used] = j
			g.used++
		}
	}
	for i, name := range after {
		if n, ok := numbers[string(name)]; ok && l.from[i] < 0 {
			groups[n].n++
		}
	}
	for n := range groups {
		g := &groups[n]
		if g.used = 0; !certain(indexes[g.first:g.first+g.was], g.n) {
			g.used = g.was
		}
	}
	done := true
	for i, name := range after {
		if n, ok := numbers[string(name)]; ok && l.from[i] < 0 && groups[n].used < groups[n].was {
			l.take(i, indexes[groups[n].first+groups[n].used])
			groups[n].used++
		}
		done = done && l.from[i] >= 0
	}
	return done
}

func (l *list) take(i, j int) { l.from[i], l.gone[j] = j, false }

// open returns the elements of before that are removed or changed: the lists do not show which.
func (l *list) open() []int {
	if !slices.Contains(l.gone, true) || !slices.Contains(l.from, -1) {
		return nil
	}
	left := map[string]bool{}
	for i, key := range l.afterKeys {
		if l.from[i] < 0 {
			left[string(key)] = true
		}
	}
	var out []int
	for j, key := range l.beforeKeys {
		if l.gone[j] && (left[string(key)] || left[""] || len(key) == 0 && len(left) > 0) {
			out = append(out, j)
		}
	}
	return out
}

// possible reports whether two elements can be the same by their keys.
func (l *list) possible(j, i int) bool {
	was, is := l.beforeKeys[j], l.afterKeys[i]
	return len(was) == 0 || len(is) == 0 || bytes.Equal(was, is)
}

func same(elements [][]byte, which []int) bool {
	for _, i := range which[1:] {
		if !bytes.Equal(elements[i], elements[which[0]]) {
			return false
		}
	}
	return true
}

// keys returns the key of each element, if it has one. Without a name, the key of the list is the
// first of the identities that an element has.
func keys(before, after [][]byte, name string) (was, is [][]byte) {
	was, is = make([][]byte, len(before)), make([][]byte, len(after))
	if name == "" {
		best := len(identities)
		for _, list := range [...][][]byte{before, after} {
			for _, e := range list {
				best = min(best, rank(e))
			}
		}
		if best == len(identities) {
			return was, is
		}
		name = identities[best]
	}
	for j, e := range before {
		was[j] = keyOf(e, name)
	}
	for i, e := range after {
		is[i] = keyOf(e, name)
	}
	return was, is
}

func rank(element []byte) int {
	best := len(identities)
	if KindOf(element) != Object {
		return best
	}
	for c := Open(element); best > 0 && c.Next(); {
		if n, ok := ranks[string(bytes.Trim(c.Key, `"`))]; ok && scalar(c.Value) {
			best = min(best, n)
		}
	}
	return best
}

func keyOf(element []byte, name string) []byte {
	value := first(element, name)
	if !scalar(value) {
		return nil
	}
	second, ok := seconds[name]
	if !ok {
		return value
	}
	other := first(element, second.name)
	if !scalar(other) {
		other = []byte(second.zero)
	}
	return append(append(slices.Clip(value), ' '), other...)
}

// first is [Member] for text of an encoder, which has no repeated names.
func first(element []byte, name string) []byte {
	if KindOf(element) != Object {
		return nil
	}
	for c := Open(element); c.Next(); {
		if string(bytes.Trim(c.Key, `"`)) == name {
			return c.Value
		}
	}
	return nil
}

// scalar reports whether a value can be a key.
func scalar(value []byte) bool {
	kind := KindOf(value)
	return kind == Number || kind == Bool || kind == String && len(value) > 2
}
