// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"hash/maphash"
	"math/bits"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// table is a hash table of indices into a slice, with linear probing. A Go map with a Key of four
// strings needs several times the time and memory. With 100,000 entries that is more than the rest
// of Diff.
type table struct {
	slots []slot
	mask  uint32
}

// slot is a place in a table. Its index is that of the element plus one, or 0 if it is empty.
type slot struct {
	hash  uint32
	index int32
}

// newTable returns a table with room for n indices.
func newTable(n int) table {
	if n == 0 {
		return table{}
	}
	size := uint32(1) << bits.Len32(uint32(2*n-1)) // at most half full
	return table{slots: make([]slot, size), mask: size - 1}
}

// find returns the slot of the element that same accepts, or the empty slot for a new element.
func (t *table) find(hash uint32, same func(int32) bool) (at uint32, ok bool) {
	if t.slots == nil {
		return 0, false
	}
	for at = hash & t.mask; ; at = (at + 1) & t.mask {
		switch s := t.slots[at]; {
		case s.index == 0:
			return at, false
		case s.hash == hash && same(s.index-1):
			return at, true
		}
	}
}

func (t *table) put(at, hash uint32, i int32) { t.slots[at] = slot{hash: hash, index: i + 1} }

// seed makes hashes that cannot be predicted. So a work cannot have names chosen to collide.
type seed struct{ maphash.Seed }

func newSeed() seed { return seed{maphash.MakeSeed()} }

func (s seed) object(id *v1alpha1.ResourceIdentifier) uint32 { return s.hash(id, id.Kind) }

func (s seed) resource(id *v1alpha1.ResourceIdentifier) uint32 { return s.hash(id, id.Resource) }

func (s seed) hash(id *v1alpha1.ResourceIdentifier, kind string) uint32 {
	const odd = 0x9E3779B97F4A7C15
	h := maphash.String(s.Seed, id.Name)
	h = h*odd + maphash.String(s.Seed, id.Namespace)
	h = h*odd + maphash.String(s.Seed, kind)
	return uint32(h >> 32)
}

func sameObject(a, b *v1alpha1.ResourceIdentifier) bool {
	return a.Name == b.Name && a.Namespace == b.Namespace && a.Kind == b.Kind && a.Group == b.Group
}

func sameResource(a, b *v1alpha1.ResourceIdentifier) bool {
	return a.Name == b.Name && a.Namespace == b.Namespace && a.Resource == b.Resource && a.Group == b.Group
}
