// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// registry maps watchers to watched objects and back. The watcher's mutex guards it.
type registry struct {
	watchers map[ObjectIdentifier]*watching
	objects  map[ObjectIdentifier]*object
	busy     map[ObjectIdentifier]time.Time // start times of the reconciles in progress
}

// watching is the record of a watcher: its objects and its pending triggers.
type watching struct {
	id       ObjectIdentifier
	objects  map[*object]struct{}
	triggers map[ObjectIdentifier]Trigger // by watched object
	queued   time.Time                    // when the first of triggers was added
	began    time.Time                    // when its last reconcile began
	ended    time.Time
}

type subscription struct {
	// initial: the watcher must be notified of the existing objects when they are known.
	initial bool
	// reading: the watcher is about to read the existing objects, so it needs no notification.
	reading bool
	seen    string
}

// wanted is an object to watch, with its kind looked up.
type wanted struct {
	id   ObjectIdentifier
	seen string // a resource version, or empty
}

func newRegistry() registry {
	return registry{
		watchers: map[ObjectIdentifier]*watching{},
		objects:  map[ObjectIdentifier]*object{},
		busy:     map[ObjectIdentifier]time.Time{},
	}
}

// watcher returns the record of a watcher. One that is removed and added again keeps MinInterval.
func (r *registry) watcher(id ObjectIdentifier) *watching {
	w := r.watchers[id]
	if w == nil {
		w = &watching{id: id, objects: map[*object]struct{}{}, began: r.busy[id]}
		r.watchers[id] = w
	}
	return w
}

// subscribe adds an object to a watcher. It reports whether the watcher did not watch it before.
func (r *registry) subscribe(
	watcher ObjectIdentifier, want wanted, make func(wanted) *object,
) (o *object, joined bool) {
	o = r.objects[want.id]
	if o == nil {
		o = make(want)
		r.objects[want.id] = o
	}
	w := r.watcher(watcher)
	if _, ok := o.watchers.get(w); ok {
		return o, false
	}
	w.objects[o] = struct{}{}
	o.watchers.set(w, subscription{initial: true, seen: want.seen})
	if !o.list.synced() && stream.Covered(want.seen, want.seen) { // its watch begins there
		o.version = stream.Later(o.version, want.seen)
	}
	return o, true
}

// unsubscribe removes an object from a watcher. It reports whether the object has no watchers left.
func (r *registry) unsubscribe(w *watching, o *object) (unused bool) {
	delete(w.objects, o)
	delete(w.triggers, o.id)
	o.watchers.delete(w)
	if o.watchers.len() > 0 {
		return false
	}
	if r.objects[o.id] == o {
		delete(r.objects, o.id)
	}
	return true
}

// tidy removes the record of a watcher without objects and triggers.
func (r *registry) tidy(w *watching) {
	if len(w.objects) == 0 && len(w.triggers) == 0 && r.watchers[w.id] == w {
		delete(r.watchers, w.id)
	}
}

func (r *registry) watches(watcher ObjectIdentifier) []*object {
	if w := r.watchers[watcher]; w != nil {
		return slices.Collect(maps.Keys(w.objects))
	}
	return nil
}

func compareIdentifiers(a, b ObjectIdentifier) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Selector, b.Selector),
	)
}
