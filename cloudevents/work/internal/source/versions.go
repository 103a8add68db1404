// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"math"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"
)

// All replicas have the same resourceVersions. Only the leader assigns versions, one for each write.
// The other replicas take them from the Store, where each batch has the last one. A batch does not
// have the versions of its removals: no watch resumes between the versions at the ends of such a
// batch.
//
// A leader that is replaced may have shown versions that it could not store. Its successor begins
// takeoverStep higher, and no watch resumes between the two.

// takeoverStep is more than the versions that a leader can assign while another one replaces it.
const takeoverStep = 1 << 20

// firstVersionLocked returns the version at which this replica begins as the leader. It is also
// higher than those of a Store that was restored since.
func (r *replica) firstVersionLocked() uint64 {
	return max(max(r.cache.LastVersion(), r.leader.Version)+takeoverStep, uint64(r.now().UnixMicro()))
}

// mirrorWorksLocked applies the works of a batch.
func (r *replica) mirrorWorksLocked(batch *mirrored) {
	from := r.cache.LastVersion()
	to := max(batch.version, r.leader.Version)
	if !batch.whole {
		to = max(to, from)
	}
	// Watches deliver versions in ascending order.
	slices.SortFunc(batch.works, func(a, b mirroredWork) int { return cmp.Compare(a.version, b.version) })
	removed := batch.removedLocked()
	follows := !r.behind && batch.followsLocked(from, to, len(removed))
	if !follows {
		r.cache.Rewind(from)
	}
	version := from
	removeUntil := func(end uint64) { // removals have the first versions that the other writes leave
		for ; len(removed) > 0 && version+1 < end; removed = removed[1:] {
			if first := removed[0]; first.work.Object == first.object {
				version++
				r.cache.RemoveAs(first.work, nil, version)
			}
		}
	}
	gap := batch.lacksRemovals || len(removed) > 0 || to-from >= takeoverStep
	for _, m := range batch.works {
		if follows && m.changed() {
			removeUntil(m.version)
			version = m.version
		}
		if m.replaces() { // no version was left
			r.cache.RemoveAs(m.work, nil, version)
		}
		r.mirrorWorkLocked(m)
	}
	removeUntil(math.MaxUint64)
	for _, w := range batch.gone {
		w.dropLocked(nil)
	}
	if !follows {
		r.cache.Rewind(to)
		return
	}
	r.cache.Advance(from, to, gap)
}

// removal is a work that loses its object.
type removal struct {
	work   *sourceWork
	object *workv1.ManifestWork
}

// removedLocked returns the works with objects that the batch removes. Those with a new object of
// another UID come first, in the order of their versions.
func (b *mirrored) removedLocked() []removal {
	var out []removal
	for i := range b.works {
		if m := &b.works[i]; m.replaces() && m.stored.Object != nil {
			out = append(out, removal{m.work, m.work.Object})
		}
	}
	for i := range b.works {
		if m := &b.works[i]; m.replaces() && m.stored.Object == nil {
			out = append(out, removal{m.work, m.work.Object})
		}
	}
	for _, w := range b.gone {
		if w.Object != nil {
			out = append(out, removal{w, w.Object})
		}
	}
	return out
}

// replaces reports whether the work loses its object, or gets one with another UID.
func (m *mirroredWork) replaces() bool {
	old := m.work.Object
	return old != nil && (m.stored.Object == nil || old.UID != m.stored.Object.UID)
}

// changed reports whether the object is another one than that of this replica. Equal versions have
// equal objects.
func (m *mirroredWork) changed() bool {
	old, next := m.work.Object, m.stored.Object
	return next != nil && (old == nil || old.UID != next.UID || old.ResourceVersion != next.ResourceVersion)
}

// followsLocked reports whether the objects of this replica at the version from become those of the
// batch at the version to by writes with versions between the two. Otherwise this replica has
// changes that the Store does not have.
func (b *mirrored) followsLocked(from, to uint64, removed int) bool {
	writes := uint64(removed)
	for i := range b.works {
		m := &b.works[i]
		if !m.changed() {
			continue
		}
		if m.version <= from || m.version > to {
			return false
		}
		writes++
	}
	return to >= from && writes <= to-from
}
