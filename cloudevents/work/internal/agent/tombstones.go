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
// the removal.
func (w *agentWork) removeLocked() { w.removeAsLocked(nil) }

// removeAsLocked is removeLocked with the last state that watches deliver; nil means the current
// state.
func (w *agentWork) removeAsLocked(last *workv1.ManifestWork) {
	a := w.agent
	next := w.Next
	if w.State != protocol.Deleting {
		next = nil // a spec that waited for its name is deleted as well
	}
	if w.Object != nil {
		if a.traits.Bundle {
			meta := w.Object.ObjectMeta // a pointer to it would keep the spec in memory
			if last != nil {
				meta = last.ObjectMeta
			}
			meta.ManagedFields = nil
			w.LastMeta = &meta
		}
		a.cache.Remove(w, last)
	}
	w.stopWaiting()
	w.setRefused(0)
	w.State, w.Next, w.Relearned = protocol.Tombstone, nil, false
	w.Problem, w.Unsent, w.Labels, w.Annotations = nil, nil, nil, nil
	w.Removed = a.options.Clock.Now()
	a.expireTombstonesLocked(w.Removed)
	a.addTombstoneLocked(w)
	w.publishLocked()
	if next != nil {
		w.create(ownSpec(next))
	}
	w.accountLocked()
	a.serveWaiting(w.Name)
}

// stopWaiting removes the work from the works that wait for their name.
func (w *agentWork) stopWaiting() {
	a := w.agent
	a.waiting[w.Name] = slices.DeleteFunc(a.waiting[w.Name], func(other *agentWork) bool { return other == w })
	if len(a.waiting[w.Name]) == 0 {
		delete(a.waiting, w.Name)
	}
}

// serveWaiting creates the first work that waits for a name, if the name is free now.
func (a *Agent) serveWaiting(name string) {
	for len(a.waiting[name]) > 0 && a.cache.Get(a.options.ClusterName, name) == nil {
		w := a.waiting[name][0]
		spec := ownSpec(w.Next)
		w.stopWaiting()
		w.create(spec)
		w.accountLocked()
		w.publishLocked()
	}
}

// addTombstoneLocked adds a tombstone to the order of expiry. A work that has a place from an
// earlier removal is moved when that place expires.
func (a *Agent) addTombstoneLocked(w *agentWork) {
	if !w.listed {
		w.listed = true
		a.tombstones = append(a.tombstones, tombstone{w, w.Removed})
	}
}

// expireTombstonesLocked removes tombstones older than their TTL.
func (a *Agent) expireTombstonesLocked(now time.Time) {
	for len(a.tombstones) > 0 {
		g := a.tombstones[0]
		if now.Sub(g.removed) < a.options.TombstoneTTL {
			return
		}
		a.tombstones[0] = tombstone{}
		a.tombstones = a.tombstones[1:]
		w := g.work
		w.listed = false
		switch {
		case w.State != protocol.Tombstone || w.source.works[w.id] != w:
		case w.Removed.Equal(g.removed):
			delete(w.source.works, w.id)
			w.accountLocked()
			a.keepLocked(w)
		default: // it was created and removed again
			a.addTombstoneLocked(w)
		}
	}
}

// tombstone is a place in the order in which tombstones expire.
type tombstone struct {
	work    *agentWork
	removed time.Time
}
