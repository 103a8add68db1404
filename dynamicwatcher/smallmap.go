// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"iter"
	"maps"
)

// smallMap is a map that needs no allocation for one entry. Most watched objects have one watcher
// and one UID.
type smallMap[K comparable, V any] struct {
	key   K
	value V
	has   bool
	more  map[K]V
}

func (f *smallMap[K, V]) len() int {
	if f.has {
		return 1 + len(f.more)
	}
	return len(f.more)
}

func (f *smallMap[K, V]) get(key K) (value V, ok bool) {
	if f.has && f.key == key {
		return f.value, true
	}
	value, ok = f.more[key]
	return value, ok
}

func (f *smallMap[K, V]) set(key K, value V) {
	_, elsewhere := f.more[key]
	switch {
	case !elsewhere && (!f.has || f.key == key):
		f.key, f.value, f.has = key, value, true
	case f.more == nil:
		f.more = map[K]V{key: value}
	default:
		f.more[key] = value
	}
}

func (f *smallMap[K, V]) delete(key K) {
	if f.has && f.key == key {
		*f = smallMap[K, V]{more: f.more}
		return
	}
	if delete(f.more, key); len(f.more) == 0 {
		f.more = nil
	}
}

func (f *smallMap[K, V]) clear() { *f = smallMap[K, V]{} }

// all returns the entries. The loop may call set and delete, as with a map.
func (f *smallMap[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if f.has && !yield(f.key, f.value) {
			return
		}
		maps.All(f.more)(yield)
	}
}
