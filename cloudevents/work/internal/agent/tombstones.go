// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
)

// removeLocked removes the object, reports the work as gone, and creates the works that waited for
// the removal. last is the last state that watches deliver; nil means the current state.
func (w *agentWork) removeLocked(last *workv1.ManifestWork) {
	r := w.source.records
	next := w.Next
	if w.State != protocol.Deleting {
		next = nil // a spec that waited for its name is deleted as well
	}
	if w.Object != nil {
		if r.traits.Bundle {
			meta := w.Object.ObjectMeta // a pointer to it would keep the spec in memory
			if last != nil {
				meta = last.ObjectMeta
			}
			meta.ManagedFields = nil
			w.LastMeta = &meta
		}
		r.cache.Remove(w, last)
	}
	r.stopWaitingLocked(w)
	w.source.setRefusedLocked(w, 0)
	w.State, w.Next, w.Relearned = protocol.Tombstone, nil, false
	w.Problem, w.Unsent, w.Labels, w.Annotations = nil, nil, nil, nil
	w.Removed = r.options.Clock.Now()
	r.expireTombstonesLocked(w.Removed)
	r.addTombstoneLocked(w)
	w.publishLocked()
	if next != nil {
		w.createLocked(ownSpec(next))
	}
	w.accountLocked()
	r.serveWaitingLocked(w.Name)
}

// stopWaitingLocked removes a work from the works that wait for their name.
func (r *records) stopWaitingLocked(w *agentWork) {
	r.waiting[w.Name] = slices.DeleteFunc(r.waiting[w.Name], func(other *agentWork) bool { return other == w })
	if len(r.waiting[w.Name]) == 0 {
		delete(r.waiting, w.Name)
	}
}

// serveWaitingLocked creates the first work that waits for a name, if the name is free now.
func (r *records) serveWaitingLocked(name string) {
	for len(r.waiting[name]) > 0 && r.cache.Get(r.options.ClusterName, name) == nil {
		w := r.waiting[name][0]
		spec := ownSpec(w.Next)
		r.stopWaitingLocked(w)
		w.createLocked(spec)
		w.accountLocked()
		w.publishLocked()
	}
}

// addTombstoneLocked adds a tombstone to the order of expiry. A work that has a place from an
// earlier removal is moved when that place expires.
func (r *records) addTombstoneLocked(w *agentWork) {
	if !w.listed {
		w.listed = true
		r.tombstones = append(r.tombstones, tombstone{w, w.Removed})
	}
}

// expireTombstonesLocked removes tombstones older than their TTL.
func (r *records) expireTombstonesLocked(now time.Time) {
	for len(r.tombstones) > 0 {
		g := r.tombstones[0]
		if now.Sub(g.removed) < r.options.TombstoneTTL {
			return
		}
		r.tombstones[0] = tombstone{}
		r.tombstones = r.tombstones[1:]
		w := g.work
		w.listed = false
		switch {
		case w.State != protocol.Tombstone || !w.isRecordedLocked():
		case w.Removed.Equal(g.removed):
			delete(w.source.works, w.id)
			w.accountLocked()
			w.keepLocked()
		default: // it was created and removed again
			r.addTombstoneLocked(w)
		}
	}
}

// tombstone is a place in the order in which tombstones expire.
type tombstone struct {
	work    *agentWork
	removed time.Time
}
