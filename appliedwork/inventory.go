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
	raw     *unstructured.Unstructured // as it was read, with fields that we do not know; nil when it does not exist yet
	work    *v1alpha1.AppliedWork      // raw's status is written from here
	size    int                        // of the entries in JSON, at most
	changed bool
}

// place is where an entry is.
type place struct{ shard, entry int }

// inventory is what an AppliedWork and its shards record, as of one read. The first shard is the AppliedWork itself. An
// entry stays in the shard that it was written to: moving it would take two writes, and a crash between them.
type inventory struct {
	shards    []*shard
	places    map[Key][]place // more than one where two clients recorded the same object at once
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

// terminating reports whether nothing may be applied any more.
func (inv *inventory) terminating() bool { return isTerminating(inv.main()) }

func isTerminating(work metav1.Object) bool {
	return work.GetDeletionTimestamp() != nil || work.GetAnnotations()[v1alpha1.AnnotationTerminating] != ""
}

// Values of the annotation that ends an AppliedWork.
const (
	byTeardown        = "Teardown"
	byPartialTeardown = "PartialTeardown" // a Teardown with policies that keep objects
	byRelease         = "Release"
)

// isEnding reports whether an AppliedWork has no claim on its objects any more, because all of them
// are about to be deleted. An AppliedWork that keeps or releases objects has a claim until it is
// gone: other AppliedWorks do not know these objects.
func isEnding(work metav1.Object) bool {
	how := work.GetAnnotations()[v1alpha1.AnnotationTerminating]
	return isTerminating(work) && (how == "" || how == byTeardown) &&
		!slices.Contains(work.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// keeps reports whether policies keep a recorded object.
func (inv *inventory) keeps(policies Policies) bool {
	return slices.ContainsFunc(inv.entries(), func(e v1alpha1.AppliedResourceMeta) bool {
		return policies.of(e.ResourceIdentifier, e.Adopted) == PolicyOrphan
	})
}

// entries returns each recorded object once; of duplicates the one with a UID.
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

// find returns the entry of an object, of several the first with a UID.
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

// entry returns what is recorded of an object; of one that is not recorded, an empty entry.
func (inv *inventory) entry(key Key) v1alpha1.AppliedResourceMeta {
	if p, ok := inv.find(key); ok {
		return *inv.at(p)
	}
	return v1alpha1.AppliedResourceMeta{}
}

// put records an object with the UID, in its place or, when it is new, in the first shard that has room. Entries of the
// same object elsewhere get the UID too.
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

// room returns a shard with room, which may be a new one.
func (inv *inventory) room(size int) int {
	for i, s := range inv.shards {
		if s.size+size <= inv.shardSize {
			return i
		}
	}
	inv.shards = append(inv.shards, newShard(inv.main(), len(inv.shards)))
	return len(inv.shards) - 1
}

// newShard returns the n-th further AppliedWork of main, to be created.
func newShard(main *v1alpha1.AppliedWork, n int) *shard {
	work := &v1alpha1.AppliedWork{Spec: main.Spec}
	work.SetGroupVersionKind(v1alpha1.GroupVersionKind)
	work.Name = shardName(main, n)
	work.Labels = map[string]string{v1alpha1.LabelShardOf: string(main.UID)}
	SetOwnerReference(work, main) // deleted with it, also when no agent is left
	return &shard{work: work}
}

// remove forgets entries that still say what was decided about: another UID by now is another object. Places are not
// valid afterwards.
func (inv *inventory) remove(entries []v1alpha1.AppliedResourceMeta) {
	gone := make(map[Key]types.UID, len(entries))
	for _, e := range entries {
		gone[KeyOf(e.ResourceIdentifier)] = e.UID
	}
	for _, s := range inv.shards {
		kept := s.work.Status.AppliedResources[:0]
		for _, e := range s.work.Status.AppliedResources {
			if uid, ok := gone[KeyOf(e.ResourceIdentifier)]; ok && uid == e.UID {
				s.size -= entrySize(&e)
				s.changed = true
				continue
			}
			kept = append(kept, e)
		}
		s.work.Status.AppliedResources = kept
	}
}

func (inv *inventory) count() int {
	n := 0
	for _, s := range inv.shards {
		n += len(s.work.Status.AppliedResources)
	}
	return n
}

// shardsOf returns how many further AppliedWorks there should be. The annotation is written before the first of them; the
// status is for when somebody takes the annotation away.
func shardsOf(work *v1alpha1.AppliedWork) int {
	n, err := strconv.Atoi(work.Annotations[v1alpha1.AnnotationShards])
	if err != nil {
		n = 0
	}
	return max(n, int(work.Status.Shards))
}

// Entries in JSON have these names, quotes and commas, and a UID even when it is not known yet.
const entryFrame = len(`{"ordinal":,"group":"","version":"","kind":"","resource":"","namespace":"","name":"","uid":""},`) + 36

func entrySize(e *v1alpha1.AppliedResourceMeta) int {
	size := entryFrame + len(strconv.Itoa(e.Ordinal)) + len(e.Group) + len(e.Version) + len(e.Kind) + len(e.Resource) + len(e.Namespace) + len(e.Name)
	if e.Adopted {
		size += len(`,"adopted":true`)
	}
	return size
}
