// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// registry knows who watches what, in both directions. The watcher's lock guards it.
type registry struct {
	watchers map[ObjectIdentifier]*watching
	objects  map[ObjectIdentifier]*object
	busy     map[ObjectIdentifier]time.Time // watchers whose reconcile is under way, and since when
}

// watching is what a watcher watches, and what it has not been reconciled for.
type watching struct {
	id       ObjectIdentifier
	objects  map[*object]struct{}
	triggers map[ObjectIdentifier]Trigger // by watched object
	queued   time.Time                    // when the first of triggers came
	began    time.Time                    // when its last reconcile began
	ended    time.Time
}

// subscription is one watcher's interest in one object.
type subscription struct {
	// waits is whether the watcher is to be told of what exists when that is known.
	initial bool
	// reads is whether the watcher is about to read what exists, so that it needs not be told of it.
	reading bool
	// seen is the resource version that the watcher says it has seen.
	seen string
}

func newRegistry() registry {
	return registry{watchers: map[ObjectIdentifier]*watching{}, objects: map[ObjectIdentifier]*object{}, busy: map[ObjectIdentifier]time.Time{}}
}

// watcher returns the record of a watcher, and makes one where there is none. A reconcile that
// removes its watcher and adds it again does not end MinInterval by that.
func (r *registry) watcher(id ObjectIdentifier) *watching {
	w := r.watchers[id]
	if w == nil {
		w = &watching{id: id, objects: map[*object]struct{}{}, began: r.busy[id]}
		r.watchers[id] = w
	}
	return w
}

// subscribe adds an object to what a watcher watches. It returns the object, and whether the watcher did not watch it.
func (r *registry) subscribe(watcher ObjectIdentifier, want wanted, make func(wanted) *object) (o *object, joined bool) {
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
	if !o.synced && covered(want.seen, want.seen) { // its watch begins there
		o.version = later(o.version, want.seen)
	}
	return o, true
}

// unsubscribe takes an object out of what a watcher watches. It reports whether nobody watches the object any more.
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

// tidy forgets a watcher that there is nothing to remember of.
func (r *registry) tidy(w *watching) {
	if len(w.objects) == 0 && len(w.triggers) == 0 && r.watchers[w.id] == w {
		delete(r.watchers, w.id)
	}
}

// watches returns what a watcher watches.
func (r *registry) watches(watcher ObjectIdentifier) []*object {
	if w := r.watchers[watcher]; w != nil {
		return slices.Collect(maps.Keys(w.objects))
	}
	return nil
}

// compareIdentifiers is the order of identifiers in what users get.
func compareIdentifiers(a, b ObjectIdentifier) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Selector, b.Selector),
	)
}
