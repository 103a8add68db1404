// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/internal/workdata"
)

// mirrored is a batch of the Store, or a state that has several, sorted by the kind of record.
type mirrored struct {
	whole bool // it is the whole content: other works are removed
	// lacksRemovals is whether works may have been created and removed since the previous batch.
	lacksRemovals bool

	leader   *journal.Change
	events   map[string][]byte // that wait for the leader, by key; nil for an event that was handled
	works    []mirroredWork
	gone     []*sourceWork
	clusters []journal.Change // applied after the works: a cluster with works stays
	others   []journal.Change
	meta     *journal.Change
	version  uint64 // of the last work, in meta; 0 without meta
}

type mirroredWork struct {
	work    *sourceWork
	stored  *storedSourceWork
	version uint64
}

// mirrorLocked applies changes that another replica has stored.
func (r *replica) mirrorLocked(batch *mirrored) error {
	if batch.whole {
		r.inbox.clearLocked()
		r.forgetVersionsLocked()
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
	for key, event := range batch.events {
		if event != nil {
			r.inbox.addLocked(key, event)
		} else {
			r.inbox.removeLocked(key)
		}
	}
	if err := r.mirrorOthersLocked(batch.others); err != nil {
		return err
	}
	r.mirrorWorksLocked(batch)
	if batch.meta != nil { // its resourceVersion is that of the last work
		batch.clusters = append(batch.clusters, *batch.meta)
	}
	if err := r.mirrorOthersLocked(batch.clusters); err != nil {
		return err
	}
	if batch.whole && r.behind { // as in a process that has loaded the store
		r.behind = false
		r.removeUnlistedLocked(batch)
		r.openGapsLocked()
	}
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

// removeUnlistedLocked removes the clusters that the whole content of the Store does not have.
func (r *replica) removeUnlistedLocked(batch *mirrored) {
	listed := map[string]struct{}{}
	for _, c := range slices.Concat(batch.clusters, batch.others) {
		if name, ok := strings.CutPrefix(c.Key, journal.PrefixCluster); ok {
			listed[name] = struct{}{}
		} else if name, _, ok := journal.ParseKey(journal.PrefixPast, c.Key); ok {
			listed[name] = struct{}{}
		}
	}
	for name, c := range r.clusters {
		if _, ok := listed[name]; !ok && len(c.worksLocked()) == 0 {
			r.removeClusterLocked(c)
		}
	}
	for name := range r.forgotten.byName {
		if _, ok := listed[name]; !ok {
			r.forgotten.takeLocked(name)
		}
	}
}

// addLocked sorts changes of the Store into a batch. The leader needs only its own record and the
// events of other replicas.
func (b *mirrored) addLocked(r *replica, changes []journal.Change) error {
	if b.events == nil {
		b.events = map[string][]byte{}
	}
	for i, c := range changes {
		cluster, id, isWork := journal.ParseKey(journal.PrefixWork, c.Key)
		switch {
		case c.Key == journal.KeyLeader:
			b.leader = &changes[i]
		case strings.HasPrefix(c.Key, journal.PrefixInbox):
			b.events[c.Key] = c.Value
		case r.leads:
		case isWork:
			if err := b.addWorkLocked(r, workID{cluster, id}, c); err != nil {
				return err
			}
		case c.Key == journal.KeyMeta && c.Value != nil:
			var m journal.Meta
			if err := json.Unmarshal(c.Value, &m); err != nil {
				return fmt.Errorf("read record %q of the Store: %w", c.Key, err)
			}
			b.meta, b.version = &changes[i], m.ResourceVersion
		case strings.HasPrefix(c.Key, journal.PrefixCluster):
			b.clusters = append(b.clusters, c)
		default:
			b.others = append(b.others, c)
		}
	}
	return nil
}

func (b *mirrored) addWorkLocked(r *replica, of workID, c journal.Change) error {
	w := r.works[of]
	if c.Value == nil {
		if w != nil {
			b.gone = append(b.gone, w)
		} else {
			b.lacksRemovals = true
		}
		return nil
	}
	stored := &storedSourceWork{}
	if err := workdata.Decode(c.Value, stored, sourceWorkMembers); err != nil {
		return fmt.Errorf("read record %q of the Store: %w", c.Key, err)
	}
	if w == nil {
		w = &sourceWork{cluster: r.clusterLocked(of.cluster), id: of.id}
	}
	m := mirroredWork{w, stored, stored.resourceVersion()}
	if stored.Object != nil && !m.changed() {
		stored.Object = w.Object // a state has many works, most of them unchanged
	}
	b.works = append(b.works, m)
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

// mirrorOthersLocked applies changes of records that are not records of works.
func (r *replica) mirrorOthersLocked(changes []journal.Change) error {
	for _, c := range changes {
		name, isCluster := strings.CutPrefix(c.Key, journal.PrefixCluster)
		cluster, id, isPast := journal.ParseKey(journal.PrefixPast, c.Key)
		switch {
		case c.Value != nil:
			if err := r.loadOtherLocked(c.Key, c.Value); err != nil {
				return fmt.Errorf("read record %q of the Store: %w", c.Key, err)
			}
		case isCluster:
			if c := r.clusters[name]; c != nil && len(c.worksLocked()) == 0 {
				r.removeClusterLocked(c)
			}
			r.forgotten.takeLocked(name)
		case isPast:
			if c := r.clusters[cluster]; c != nil {
				c.reported.takeLocked(id)
			}
		}
	}
	return nil
}
