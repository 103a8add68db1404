// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"hash/maphash"
	"unsafe"
	"weak"

	workv1 "open-cluster-management.io/api/work/v1"
)

// minShared is the size of the smallest manifest that is shared. An entry of manifests has some 50
// bytes.
const minShared = 128

// manifests has one copy of equal manifests. Fleets have many: one application on each cluster. It
// does not keep them in memory: a manifest that no work uses is freed. The source's mutex guards it.
type manifests struct {
	seed   maphash.Seed
	byHash map[uint64]sharedManifest
	sweep  int // the size of byHash from which entries of freed manifests are removed
}

type sharedManifest struct {
	first weak.Pointer[byte]
	size  int
}

func newManifests() *manifests {
	return &manifests{seed: maphash.MakeSeed(), byHash: map[uint64]sharedManifest{}, sweep: 1024}
}

// shareLocked replaces each manifest of a new spec by an equal one that another work uses, if there is
// one.
func (m *manifests) shareLocked(spec *workv1.ManifestWorkSpec) {
	for i := range spec.Workload.Manifests {
		raw := &spec.Workload.Manifests[i].Raw
		if len(*raw) >= minShared {
			*raw = m.sharedLocked(*raw)
		}
	}
}

func (m *manifests) sharedLocked(data []byte) []byte {
	hash := maphash.Bytes(m.seed, data)
	if known, ok := m.byHash[hash]; ok && known.size == len(data) {
		if first := known.first.Value(); first != nil {
			if other := unsafe.Slice(first, known.size); bytes.Equal(other, data) {
				return other
			}
			return data
		}
	}
	if len(m.byHash) >= m.sweep {
		for hash, known := range m.byHash {
			if known.first.Value() == nil {
				delete(m.byHash, hash)
			}
		}
		m.sweep = max(1024, 2*len(m.byHash))
	}
	m.byHash[hash] = sharedManifest{weak.Make(&data[0]), len(data)}
	return data
}
