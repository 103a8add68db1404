// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// shard is one AppliedWork of an inventory.
type shard struct {
	raw     *unstructured.Unstructured // as it was read, with unknown fields; nil if it does not exist yet
	work    *v1alpha1.AppliedWork      // decoded from raw; source of the next write of the status
	size    int                        // upper limit of the size of the entries in JSON
	changed bool
}

// place is the position of an entry.
type place struct{ shard, entry int }

// inventory has the entries of an AppliedWork and its shards, from one read. The first shard is the
// AppliedWork itself. An entry stays in its shard, because moving it would need two writes.
type inventory struct {
	shards    []*shard
	places    map[Key][]place // several if two clients recorded an object at once
	shardSize int
}

func newInventory(shardSize int, shards ...*shard) *inventory {
	inv := &inventory{shards: shards, shardSize: shardSize, places: map[Key][]place{}}
	for i, s := range shards {
		for j := range s.work.Status.AppliedResources {
			e := &s.work.Status.AppliedResources[j]
			s.size += entrySize(e)
			key := KeyOf(e.ResourceIdentifier)
			inv.places[key] = append(inv.places[key], place{i, j})
		}
	}
	return inv
}

func (inv *inventory) main() *v1alpha1.AppliedWork { return inv.shards[0].work }

func (inv *inventory) terminating() bool { return isTerminating(inv.main()) }

func isTerminating(work metav1.Object) bool {
	return work.GetDeletionTimestamp() != nil || work.GetAnnotations()[v1alpha1.AnnotationTerminating] != ""
}

// Values of the annotation of an AppliedWork that ends.
const (
	byTeardown        = "Teardown"
	byPartialTeardown = "PartialTeardown" // a Teardown with policies that keep objects
	byRelease         = "Release"
)

// isEnding reports whether an AppliedWork has no claim on its objects, because all of them are
// about to be deleted. Other AppliedWorks cannot see which objects it keeps, so one that keeps or
// releases objects has a claim until it is gone.
func isEnding(work metav1.Object) bool {
	how := work.GetAnnotations()[v1alpha1.AnnotationTerminating]
	return isTerminating(work) && (how == "" || how == byTeardown) &&
		!slices.Contains(work.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// keeps reports whether policies keep any recorded object.
func (inv *inventory) keeps(policies Policies) bool {
	return slices.ContainsFunc(inv.entries(), func(e v1alpha1.AppliedResourceMeta) bool {
		return policies.of(e.ResourceIdentifier, e.Adopted) == PolicyOrphan
	})
}

// entries returns each recorded object once. Of duplicates, it returns the entry with a UID.
func (inv *inventory) entries() []v1alpha1.AppliedResourceMeta {
	entries := make([]v1alpha1.AppliedResourceMeta, 0, len(inv.places))
	for i, s := range inv.shards {
		for j := range s.work.Status.AppliedResources {
			e := s.work.Status.AppliedResources[j]
			if best, _ := inv.find(KeyOf(e.ResourceIdentifier)); best == (place{i, j}) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// find returns the place of the entry of an object. Of duplicates, it returns the first with a UID.
func (inv *inventory) find(key Key) (place, bool) {
	places := inv.places[key]
	for _, p := range places {
		if inv.at(p).UID != "" {
			return p, true
		}
	}
	if len(places) == 0 {
		return place{}, false
	}
	return places[0], true
}

func (inv *inventory) at(p place) *v1alpha1.AppliedResourceMeta {
	return &inv.shards[p.shard].work.Status.AppliedResources[p.entry]
}

func (inv *inventory) entry(key Key) v1alpha1.AppliedResourceMeta {
	if p, ok := inv.find(key); ok {
		return *inv.at(p)
	}
	return v1alpha1.AppliedResourceMeta{}
}

// put records an entry, which replaces all entries of the same object. A new entry is added to the
// first shard with room.
func (inv *inventory) put(e v1alpha1.AppliedResourceMeta) {
	key := KeyOf(e.ResourceIdentifier)
	for _, p := range inv.places[key] {
		if old := inv.at(p); *old != e {
			s := inv.shards[p.shard]
			s.size += entrySize(&e) - entrySize(old)
			*old = e
			s.changed = true
		}
	}
	if len(inv.places[key]) > 0 {
		return
	}
	i := inv.room(entrySize(&e))
	s := inv.shards[i]
	s.work.Status.AppliedResources = append(s.work.Status.AppliedResources, e)
	s.size += entrySize(&e)
	s.changed = true
	inv.places[key] = []place{{i, len(s.work.Status.AppliedResources) - 1}}
}

// room returns the index of a shard with room. It adds a shard if necessary.
func (inv *inventory) room(size int) int {
	for i, s := range inv.shards {
		if s.size+size <= inv.shardSize {
			return i
		}
	}
	inv.shards = append(inv.shards, newShard(inv.main(), len(inv.shards)))
	return len(inv.shards) - 1
}

// newShard returns the n-th shard of main, which does not exist yet.
func newShard(main *v1alpha1.AppliedWork, n int) *shard {
	work := &v1alpha1.AppliedWork{Spec: main.Spec}
	work.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	work.Name = shardName(main, n)
	work.Labels = map[string]string{v1alpha1.LabelShardOf: string(main.UID)}
	SetOwnerReference(work, main) // deleted with main, also without an agent
	return &shard{work: work}
}

// remove removes entries if they still have the given UID. Places are invalid afterwards.
func (inv *inventory) remove(entries []v1alpha1.AppliedResourceMeta) {
	gone := make(map[Key]types.UID, len(entries))
	for _, e := range entries {
		gone[KeyOf(e.ResourceIdentifier)] = e.UID
	}
	for _, s := range inv.shards {
		entries := &s.work.Status.AppliedResources
		*entries = slices.DeleteFunc(*entries, func(e v1alpha1.AppliedResourceMeta) bool {
			uid, ok := gone[KeyOf(e.ResourceIdentifier)]
			if !ok || uid != e.UID {
				return false
			}
			s.size -= entrySize(&e)
			s.changed = true
			return true
		})
	}
}

func (inv *inventory) count() int {
	n := 0
	for _, s := range inv.shards {
		n += len(s.work.Status.AppliedResources)
	}
	return n
}

// shardsOf returns the number of shards that should exist. The status is a fallback for a removed
// annotation.
func shardsOf(work *v1alpha1.AppliedWork) int {
	n, err := strconv.Atoi(work.Annotations[v1alpha1.AnnotationShards])
	if err != nil {
		n = 0
	}
	return max(n, int(work.Status.Shards))
}

// entryFrame is the size of the names, quotes and commas of an entry in JSON, and of a UID.
const entryFrame = 36 +
	len(`{"ordinal":,"group":"","version":"","kind":"","resource":"","namespace":"","name":"","uid":""},`)

func entrySize(e *v1alpha1.AppliedResourceMeta) int {
	size := entryFrame + len(strconv.Itoa(e.Ordinal)) + len(e.Group) + len(e.Version) + len(e.Kind) +
		len(e.Resource) + len(e.Namespace) + len(e.Name)
	if e.Adopted {
		size += len(`,"adopted":true`)
	}
	return size
}
