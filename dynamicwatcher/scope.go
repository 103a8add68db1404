// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import "github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"

// unscope removes the namespace of an object whose kind turns out to be cluster-scoped: the kind
// was awaited, or has changed. The watchers then watch the object without the namespace, which may
// be watched already.
func (o *object) unscope() {
	w := o.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	want := wanted{id: o.id}
	want.id.Namespace = ""
	for watcher, s := range o.watchers.all() {
		w.moveLocked(watcher, s, o, want)
	}
	w.dropLocked(o)
}

// misplaced reports whether an event shows that a cluster-scoped kind now has namespaces.
func misplaced(e stream.Event, namespace string) bool { return namespace == "" && e.Namespace != "" }

func (w *Watcher) moveLocked(watcher *watching, s subscription, from *object, want wanted) {
	trigger, pending := watcher.triggers[from.id]
	fresh := w.registry.objects[want.id] == nil
	want.seen = s.seen
	to, joined := w.registry.subscribe(watcher.id, want, w.newObjectLocked)
	if fresh { // it has the progress of the other object
		to.seenUntil = from.seenUntil
		if from.list.synced() {
			to.list = listInherited
		}
	}
	switch {
	case !joined:
	case s.reading || !s.initial && to.known.len() == 0: // the watcher reads the object itself, or no object exists
		to.watchers.set(watcher, s)
	case to.list.synced():
		to.notifyInitialOfLocked(watcher.id)
	}
	if b := w.batches[watcher.id]; b != nil {
		b.moved(from, to, joined)
	}
	w.registry.unsubscribe(watcher, from)
	if _, newer := watcher.triggers[want.id]; pending && !newer {
		trigger.Watched, trigger.Namespace = want.id, ""
		watcher.triggers[want.id] = trigger
	}
}

// moved updates a batch that may have asked for an object which another object replaces.
func (b *batch) moved(from, to *object, joined bool) {
	if _, asked := b.asked[from]; asked {
		b.asked[to] = struct{}{}
	}
	if _, added := b.added[from]; added && joined {
		b.added[to] = struct{}{}
	}
}
