// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

// mirrored is the content of a batch, sorted by the kind of record.
type mirrored struct {
	works    []mirroredWork
	gone     []*sourceWork
	clusters []journal.Change // applied after the works: a cluster with works stays
	meta     *journal.Change
}

type mirroredWork struct {
	work    *sourceWork
	stored  *storedSourceWork
	version uint64
}

// mirrorLocked applies changes that another replica has stored. whole is whether changes are the
// whole content of the store: then works that are not in it are removed.
func (s *Source) mirrorLocked(changes []journal.Change, whole bool) error {
	if whole {
		s.replica.clearInbox()
	}
	batch, err := s.readBatch(changes)
	if err != nil {
		return err
	}
	if whole {
		listed := map[*sourceWork]struct{}{}
		for _, m := range batch.works {
			listed[m.work] = struct{}{}
		}
		for _, w := range s.works {
			if _, ok := listed[w]; !ok {
				batch.gone = append(batch.gone, w)
			}
		}
	}
	for _, w := range batch.gone {
		s.drop(w)
	}
	// Watches deliver versions in ascending order.
	slices.SortFunc(batch.works, func(a, b mirroredWork) int { return cmp.Compare(a.version, b.version) })
	for _, m := range batch.works {
		s.mirrorWork(m.work, m.stored)
	}
	for _, c := range batch.clusters {
		if err := s.mirrorOther(c); err != nil {
			return err
		}
	}
	if batch.meta != nil { // its resourceVersion is that of the last work
		if err := s.mirrorOther(*batch.meta); err != nil {
			return err
		}
	}
	s.journal.DiscardLocked(isEvent) // the store has these changes already
	return nil
}

// readBatch returns the changes of works, clusters and the meta record in a batch, and applies all
// other changes.
func (s *Source) readBatch(changes []journal.Change) (mirrored, error) {
	var batch mirrored
	for i, c := range changes {
		cluster, id, isWork := journal.ParseKey(journal.PrefixWork, c.Key)
		switch {
		case c.Key == journal.KeyMeta:
			batch.meta = &changes[i]
			continue
		case strings.HasPrefix(c.Key, journal.PrefixCluster):
			batch.clusters = append(batch.clusters, c)
			continue
		case !isWork:
			if err := s.mirrorOther(c); err != nil {
				return batch, err
			}
			continue
		}
		w := s.works[workID{cluster, id}]
		if c.Value == nil {
			if w != nil {
				batch.gone = append(batch.gone, w)
			}
			continue
		}
		var stored storedSourceWork
		if err := json.Unmarshal(c.Value, &stored); err != nil {
			return batch, fmt.Errorf("read record %q of the Store: %w", c.Key, err)
		}
		if w == nil {
			w = &sourceWork{source: s, cluster: s.clusterLocked(cluster), id: id}
		}
		batch.works = append(batch.works, mirroredWork{w, &stored, stored.resourceVersion()})
	}
	return batch, nil
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

// mirrorWork replaces the state of a work by its stored record.
func (s *Source) mirrorWork(w *sourceWork, stored *storedSourceWork) {
	old := w.Object
	again := old != nil && (stored.Object == nil || old.UID != stored.Object.UID)
	if again {
		s.cache.Remove(w, nil)
	}
	w.load(stored)
	s.works[workID{w.cluster.name, w.id}] = w
	defer w.accountLocked()
	if stored.Object == nil {
		s.addTombstoneLocked(w)
		return
	}
	s.removeTombstoneLocked(w)
	if again || old == nil || !sameObject(old, stored.Object) {
		s.cache.PutAs(w, stored.Object)
	}
}

// sameObject reports whether two objects are equal, except for their resourceVersion: each replica
// has its own counter.
func sameObject(a, b *workv1.ManifestWork) bool {
	other := *b
	other.ResourceVersion = a.ResourceVersion
	return apiequality.Semantic.DeepEqual(a, &other)
}

// mirrorOther applies a change of a record that is not the record of a work.
func (s *Source) mirrorOther(c journal.Change) error {
	name, isCluster := strings.CutPrefix(c.Key, journal.PrefixCluster)
	cluster, id, isPast := journal.ParseKey(journal.PrefixPast, c.Key)
	switch {
	case strings.HasPrefix(c.Key, journal.PrefixInbox):
		if c.Value != nil {
			s.replica.remember(c.Key, c.Value)
		} else {
			s.replica.forget(c.Key)
		}
	case c.Value == nil && isCluster:
		if c := s.clusters[name]; c != nil && len(s.worksOf(c)) == 0 {
			s.removeCluster(c)
		}
		s.forgotten.take(name)
	case c.Value == nil && isPast:
		if c := s.clusters[cluster]; c != nil {
			c.reported.take(id)
		}
	case c.Value == nil || c.Key == journal.KeyLeader:
	default:
		if err := s.loadOther(c.Key, c.Value); err != nil {
			return fmt.Errorf("read record %q of the Store: %w", c.Key, err)
		}
	}
	return nil
}
