// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	workv1 "open-cluster-management.io/api/work/v1"
)

// mirror takes over what another replica has stored. whole is whether changes are all that the store has: what is not
// among them is gone. The works' lock is held.
func (s *Source) mirror(changes []Change, whole bool) error {
	type shown struct {
		work    *sourceWork
		stored  *storedSourceWork
		version uint64
	}
	var works []shown
	var gone []*sourceWork
	var meta *Change
	listed := map[*sourceWork]struct{}{}
	if whole {
		clear(s.replica.inbox)
		s.replica.waiting = 0
	}
	for i, c := range changes {
		if c.Key == keyMeta { // its resourceVersion is that of the last of the works
			meta = &changes[i]
			continue
		}
		cluster, id, isWork := parseWorkKey(c.Key)
		if !isWork {
			if err := s.mirrorOther(c); err != nil {
				return fmt.Errorf("record %q of the store: %w", c.Key, err)
			}
			continue
		}
		w := s.works[s.key(cluster, id)]
		if c.Value == nil {
			if w != nil {
				gone = append(gone, w)
			}
			continue
		}
		var stored storedSourceWork
		if err := json.Unmarshal(c.Value, &stored); err != nil {
			return fmt.Errorf("record %q of the store: %w", c.Key, err)
		}
		if w == nil {
			w = &sourceWork{source: s, cluster: s.cluster(cluster), id: id}
		}
		listed[w] = struct{}{}
		works = append(works, shown{w, &stored, stored.resourceVersion()})
	}
	if whole {
		for _, w := range s.works {
			if _, ok := listed[w]; !ok {
				gone = append(gone, w)
			}
		}
	}
	for _, w := range gone {
		s.drop(w)
	}
	// Watches tell versions in ascending order.
	slices.SortFunc(works, func(a, b shown) int { return cmp.Compare(a.version, b.version) })
	for _, m := range works {
		s.mirrorWork(m.work, m.stored)
	}
	if meta != nil {
		if err := s.loadOther(meta.Key, meta.Value); err != nil {
			return fmt.Errorf("record %q of the store: %w", meta.Key, err)
		}
	}
	s.journal.discard(isEvent) // nothing of this is news to the store
	return nil
}

func (m *storedSourceWork) resourceVersion() uint64 {
	if m.Object == nil {
		return 0
	}
	version, err := strconv.ParseUint(m.Object.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// mirrorWork shows a work as it is stored.
func (s *Source) mirrorWork(w *sourceWork, stored *storedSourceWork) {
	old := w.Object
	again := old != nil && (stored.Object == nil || old.UID != stored.Object.UID)
	if again {
		s.store.Remove(w, nil)
	}
	w.load(stored)
	s.works[s.key(w.cluster.name, w.id)] = w
	if stored.Object == nil {
		if w.cluster.tombstones[w.id] != w {
			w.cluster.tombstones[w.id] = w
			s.buried = append(s.buried, w)
		}
		return
	}
	delete(w.cluster.tombstones, w.id)
	if again || old == nil || !sameObject(old, stored.Object) {
		s.store.PutAs(w, stored.Object)
	}
}

// sameObject reports whether two objects differ in their resourceVersion at most. That alone tells nothing: each replica
// counts on its own, so that two states may have one number.
func sameObject(a, b *workv1.ManifestWork) bool {
	other := *b
	other.ResourceVersion = a.ResourceVersion
	return apiequality.Semantic.DeepEqual(a, &other)
}

// mirrorOther takes over what is not about a work.
func (s *Source) mirrorOther(c Change) error {
	switch name, isCluster := strings.CutPrefix(c.Key, prefixCluster); {
	case strings.HasPrefix(c.Key, prefixInbox):
		if c.Value != nil {
			s.replica.remember(c.Key, c.Value)
		} else {
			s.replica.forget(c.Key)
		}
	case c.Value == nil && isCluster:
		delete(s.clusters, name)
	case c.Value == nil || c.Key == keyWriter:
	default:
		return s.loadOther(c.Key, c.Value)
	}
	return nil
}
