// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"hash/maphash"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

const (
	// maxIndexed is the maximum size of an index in hashes: 64 MiB. It lacks AppliedWorks beyond
	// that.
	maxIndexed = 8 << 20
	// indexedWork is the overhead of an AppliedWork, in hashes.
	indexedWork = 32
)

// Index stores, for each AppliedWork that was read, its resourceVersion and the hashes of its
// recorded objects. A search for an object skips an AppliedWork if its resourceVersion is still the
// same and the object's hash is not among its hashes. All methods may be called concurrently.
type Index struct {
	seed maphash.Seed

	mu    sync.Mutex
	works map[types.UID]indexed
	size  int // in hashes
	limit int
}

type indexed struct {
	version string
	hashes  []uint64
}

// listedWork is the metadata of an AppliedWork or of a shard.
type listedWork struct {
	name    string
	uid     types.UID
	version string
	of      types.UID // UID of the AppliedWork; differs from uid for a shard
	ending  bool
}

// NewIndex returns an empty Index, for [Options].Index.
func NewIndex() *Index {
	return &Index{seed: maphash.MakeSeed(), works: map[types.UID]indexed{}, limit: maxIndexed}
}

// identity is the hashed part of a key. It has no kind, which an entry may lack.
type identity struct{ group, namespace, name string }

func (x *Index) hash(id identity) uint64 { return maphash.Comparable(x.seed, id) }

func (x *Index) hashes(keys map[Key]bool) map[uint64]bool {
	hashes := make(map[uint64]bool, len(keys))
	for k := range keys {
		hashes[x.hash(identity{k.Group, k.Namespace, k.Name})] = true
	}
	return hashes
}

// put replaces the hashes of an AppliedWork. It adds the hash of each Namespace with an object.
func (x *Index) put(work *v1alpha1.AppliedWork) {
	entries := work.Status.AppliedResources
	hashes := make([]uint64, 0, len(entries)+1)
	seen := map[string]bool{"": true}
	for i := range entries {
		e := &entries[i]
		hashes = append(hashes, x.hash(identity{e.Group, e.Namespace, e.Name}))
		if !seen[e.Namespace] {
			seen[e.Namespace] = true
			hashes = append(hashes, x.hash(identity{name: e.Namespace}))
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(work.UID)
	if size := len(hashes) + indexedWork; x.size+size <= x.limit {
		x.works[work.UID] = indexed{work.ResourceVersion, hashes}
		x.size += size
	}
}

func (x *Index) removeLocked(uid types.UID) {
	if old, ok := x.works[uid]; ok {
		x.size -= len(old.hashes) + indexedWork
		delete(x.works, uid)
	}
}

func (x *Index) retain(works []*listedWork) {
	there := make(map[types.UID]bool, len(works))
	for _, w := range works {
		there[w.uid] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for uid := range x.works {
		if !there[uid] {
			x.removeLocked(uid)
		}
	}
}

// mayHave reports whether an AppliedWork may have one of the hashes in the version of w.
func (x *Index) mayHave(w *listedWork, wanted map[uint64]bool) bool {
	x.mu.Lock()
	known, ok := x.works[w.uid]
	x.mu.Unlock()
	if !ok || known.version != w.version {
		return true
	}
	return slices.ContainsFunc(known.hashes, func(h uint64) bool { return wanted[h] })
}
