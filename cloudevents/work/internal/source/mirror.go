// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

// mirrored is the content of a batch, sorted by the kind of record.
type mirrored struct {
	works    []mirroredWork
	gone     []*sourceWork
	clusters []journal.Change // applied after the works: a cluster with works stays
	meta     *journal.Change
	version  uint64 // of the last work, in meta; 0 without meta
}

type mirroredWork struct {
	work    *sourceWork
	stored  *storedSourceWork
	version uint64
}

// mirrorLocked applies changes that another replica has stored. whole is whether changes are the
// whole content of the store: then works that are not in it are removed.
func (r *replica) mirrorLocked(changes []journal.Change, whole bool) error {
	if whole {
		r.inbox.clearLocked()
		r.forgetVersionsLocked()
	}
	batch, err := r.readBatchLocked(changes)
	if err != nil {
		return err
	}
	if whole {
		listed := map[*sourceWork]struct{}{}
		for _, m := range batch.works {
			listed[m.work] = struct{}{}
		}
		for _, w := range r.works {
			if _, ok := listed[w]; !ok {
				batch.gone = append(batch.gone, w)
			}
		}
	}
	r.mirrorWorksLocked(&batch, whole)
	for _, c := range batch.clusters {
		if err := r.mirrorOtherLocked(c); err != nil {
			return err
		}
	}
	if batch.meta != nil { // after the works: its resourceVersion is that of the last one
		if err := r.mirrorOtherLocked(*batch.meta); err != nil {
			return err
		}
	}
	if whole && r.behind { // as in a process that has loaded the store
		r.behind = false
		r.openGapsLocked()
	}
	r.journal.DiscardLocked(isEvent) // the store has these changes already
	return nil
}

// forgetVersionsLocked forgets the highest versions of clusters if the store may have lost batches:
// those in the store count, as in a new process. Then the works of the lost batches are detected as
// those of a restored backup.
func (r *replica) forgetVersionsLocked() {
	if !r.behind {
		return
	}
	for _, c := range r.clusters {
		c.highest, c.gap, c.outdated = 0, nil, false
	}
}

// readBatchLocked returns the changes of works, clusters and the meta record in a batch, and
// applies all other changes.
func (r *replica) readBatchLocked(changes []journal.Change) (mirrored, error) {
	var batch mirrored
	for i, c := range changes {
		cluster, id, isWork := journal.ParseKey(journal.PrefixWork, c.Key)
		switch {
		case c.Key == journal.KeyMeta:
			var m journal.Meta
			if err := json.Unmarshal(c.Value, &m); err != nil {
				return batch, fmt.Errorf("read record %q of the Store: %w", c.Key, err)
			}
			batch.meta, batch.version = &changes[i], m.ResourceVersion
			continue
		case strings.HasPrefix(c.Key, journal.PrefixCluster):
			batch.clusters = append(batch.clusters, c)
			continue
		case !isWork:
			if err := r.mirrorOtherLocked(c); err != nil {
				return batch, err
			}
			continue
		}
		w := r.works[workID{cluster, id}]
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
			w = &sourceWork{cluster: r.clusterLocked(cluster), id: id}
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

// mirrorWorkLocked replaces the state of a work by its stored record.
func (r *replica) mirrorWorkLocked(m mirroredWork) {
	w, stored, changed := m.work, m.stored, m.changed()
	w.loadLocked(stored)
	r.works[workID{w.cluster.name, w.id}] = w
	defer w.accountLocked()
	if stored.Object == nil {
		r.tombstones.addLocked(w)
		return
	}
	r.tombstones.removeLocked(w)
	if changed {
		r.shared.workLocked(stored.Object)
		r.cache.PutAs(w, stored.Object, m.version)
	}
}

// mirrorOtherLocked applies a change of a record that is not the record of a work.
func (r *replica) mirrorOtherLocked(c journal.Change) error {
	name, isCluster := strings.CutPrefix(c.Key, journal.PrefixCluster)
	cluster, id, isPast := journal.ParseKey(journal.PrefixPast, c.Key)
	switch {
	case strings.HasPrefix(c.Key, journal.PrefixInbox):
		if c.Value != nil {
			r.inbox.addLocked(c.Key, c.Value)
		} else {
			r.inbox.removeLocked(c.Key)
		}
	case c.Value == nil && isCluster:
		if c := r.clusters[name]; c != nil && len(c.worksLocked()) == 0 {
			r.removeClusterLocked(c)
		}
		r.forgotten.takeLocked(name)
	case c.Value == nil && isPast:
		if c := r.clusters[cluster]; c != nil {
			c.reported.takeLocked(id)
		}
	case c.Value == nil || c.Key == journal.KeyLeader:
	default:
		if err := r.loadOtherLocked(c.Key, c.Value); err != nil {
			return fmt.Errorf("read record %q of the Store: %w", c.Key, err)
		}
	}
	return nil
}
