// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"hash/maphash"
	"math/bits"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Plan is the difference between the recorded and the desired objects.
type Plan struct {
	// Keep are the objects that are both recorded and desired, in the order of desired, with the
	// desired identifier and the recorded UID.
	Keep []v1alpha1.AppliedResourceMeta
	// Add are the objects that are desired and not recorded.
	Add []v1alpha1.ResourceIdentifier
	// Stale are the entries that are recorded and not desired, in the order of recorded.
	Stale []v1alpha1.AppliedResourceMeta
}

// Diff compares recorded and desired objects by group, kind, namespace and name. Version and
// ordinal do not count. An entry without a kind is matched by its resource. Duplicates count once.
// Of recorded duplicates, Diff uses the one with a UID. It takes linear time.
func Diff(recorded []v1alpha1.AppliedResourceMeta, desired []v1alpha1.ResourceIdentifier) Plan {
	d := differ{
		recorded: recorded, desired: desired, seed: newSeed(), taken: make([]bool, len(recorded)), left: len(recorded),
	}
	d.index()
	plan := Plan{Keep: make([]v1alpha1.AppliedResourceMeta, 0, min(len(recorded), len(desired)))}
	var added []int32 // of desired
	news := newTable(0)
	for n := range desired {
		id := &desired[n]
		hash := d.seed.object(id)
		i, first := d.take(id, hash)
		switch {
		case first:
			plan.Keep = append(plan.Keep, v1alpha1.AppliedResourceMeta{ResourceIdentifier: *id, UID: recorded[i].UID})
		case i < 0:
			if news.slots == nil {
				news = newTable(len(desired) - n)
			}
			if at, again := news.find(hash, func(i int32) bool { return sameObject(&desired[i], id) }); !again {
				news.put(at, hash, int32(n))
				added = append(added, int32(n))
			}
		}
	}
	plan.Add = make([]v1alpha1.ResourceIdentifier, len(added))
	for n, i := range added {
		plan.Add[n] = desired[i]
	}
	plan.Stale = make([]v1alpha1.AppliedResourceMeta, 0, d.left)
	for i := range recorded {
		if !d.taken[i] {
			plan.Stale = append(plan.Stale, recorded[i])
		}
	}
	return plan
}

// differ finds the recorded entries of objects.
type differ struct {
	recorded   []v1alpha1.AppliedResourceMeta
	desired    []v1alpha1.ResourceIdentifier
	seed       seed
	byKey      table
	byResource table  // of entries without a kind
	taken      []bool // entries that are kept, or are duplicates
	left       int    // entries that are not taken
}

func (d *differ) index() {
	d.byKey = newTable(len(d.recorded))
	for i := range d.recorded {
		id := &d.recorded[i].ResourceIdentifier
		names, same := &d.byKey, sameObject
		var hash uint32
		if id.Kind == "" {
			if d.byResource.slots == nil {
				d.byResource = newTable(len(d.recorded))
			}
			names, hash, same = &d.byResource, d.seed.resource(id), sameResource
		} else {
			hash = d.seed.object(id)
		}
		at, again := names.find(hash, func(i int32) bool { return same(&d.recorded[i].ResourceIdentifier, id) })
		switch first := names.slots[at].index - 1; {
		case !again:
			names.put(at, hash, int32(i))
		case d.recorded[first].UID == "" && d.recorded[i].UID != "":
			d.drop(first)
			names.put(at, hash, int32(i))
		default:
			d.drop(int32(i))
		}
	}
}

// take returns the entry of an object, or a negative number, and whether it is taken first.
func (d *differ) take(id *v1alpha1.ResourceIdentifier, hash uint32) (entry int32, first bool) {
	entry = -1
	if at, ok := d.byKey.find(hash, func(i int32) bool { return sameObject(&d.recorded[i].ResourceIdentifier, id) }); ok {
		entry = d.byKey.slots[at].index - 1
	}
	if d.byResource.slots == nil {
		return entry, entry >= 0 && d.drop(entry)
	}
	at, ok := d.byResource.find(d.seed.resource(id), func(i int32) bool {
		return sameResource(&d.recorded[i].ResourceIdentifier, id)
	})
	if !ok {
		return entry, entry >= 0 && d.drop(entry)
	}
	other := d.byResource.slots[at].index - 1
	if entry < 0 {
		return other, d.drop(other)
	}
	d.drop(other) // the same object is also recorded without a kind
	return entry, d.drop(entry)
}

func (d *differ) drop(i int32) bool {
	if d.taken[i] {
		return false
	}
	d.taken[i] = true
	d.left--
	return true
}

// table is a hash table of indices into a slice, with linear probing. A Go map with a Key of four
// strings needs several times the time and memory.
type table struct {
	slots []slot
	mask  uint32
}

// slot is a place in a table. Its index is that of the element plus one, or 0 if it is empty.
type slot struct {
	hash  uint32
	index int32
}

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

// seed makes hashes that cannot be predicted, so a work cannot have names chosen to collide.
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
