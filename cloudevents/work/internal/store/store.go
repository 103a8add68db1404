// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the ManifestWorks of one source or agent in memory the way an API server's watch cache
// does: objects by namespace and name, a resourceVersion that grows with every write, a log of the last
// writes for watches to resume from, and any number of watchers.
//
// One lock guards a store and what its owner knows beside the objects: the owner calls Lock, decides, and
// calls the methods that change the store. Objects are snapshots: once handed to the store they are never
// changed, so they may be read without the lock and shared with watchers.
package store

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Entry is the store's part of a record: embed it in the owner's type.
type Entry struct {
	// Object is the current snapshot; nil while nothing is shown, as for a tombstone. Only the store's
	// methods set it.
	Object *workv1.ManifestWork
}

// Slot gives the store access to its part.
func (e *Entry) Slot() *Entry { return e }

// Record is what an owner keeps of a work: a pointer to a struct that embeds [Entry].
type Record interface {
	comparable
	Slot() *Entry
}

// Store holds the works of one source or agent. Every method but Lock and Unlock requires the lock.
type Store[R Record] struct {
	sync.Mutex

	clock      clock.WithTicker
	version    uint64
	namespaces map[string]map[string]R
	count      int
	log        eventLog
	watchers   map[string]map[*Watcher]struct{} // by namespace, "" for all
	snapshots  []*snapshot
	ends       WatchEnds
	closed     bool
	// held keeps back the end marker of initial events until Release.
	held bool
}

// New returns an empty store. Its first resourceVersion is the time in microseconds, so that a version from
// before a restart is too old rather than unknown. With hold, watches that ask for initial events get their
// end marker only after Release.
func New[R Record](c clock.WithTicker, hold bool) *Store[R] {
	start := uint64(c.Now().UnixMicro())
	return &Store[R]{
		clock:      c,
		version:    start,
		namespaces: map[string]map[string]R{},
		log:        newEventLog(start),
		watchers:   map[string]map[*Watcher]struct{}{},
		held:       hold,
	}
}

// Get returns the record that shows an object of this name, or the zero R.
func (s *Store[R]) Get(namespace, name string) R { return s.namespaces[namespace][name] }

// Has reports whether a namespace has objects.
func (s *Store[R]) Has(namespace string) bool { return len(s.namespaces[namespace]) > 0 }

// Count returns the number of objects of a namespace.
func (s *Store[R]) Count(namespace string) int { return len(s.namespaces[namespace]) }

// Len returns the number of objects.
func (s *Store[R]) Len() int { return s.count }

// Version returns the resourceVersion of the last write.
func (s *Store[R]) Version() string { return strconv.FormatUint(s.version, 10) }

// Put shows obj as the record's object: ADDED if it had none, else MODIFIED. It sets the object's
// resourceVersion; from then on the object must not be changed.
func (s *Store[R]) Put(r R, obj *workv1.ManifestWork) {
	s.version++
	obj.ResourceVersion = s.Version()
	s.show(r, obj)
}

// PutAs is Put for an object that has its resourceVersion from another replica. Where this store has gone beyond that,
// the object is a copy with the next one.
func (s *Store[R]) PutAs(r R, obj *workv1.ManifestWork) {
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil || version <= s.version {
		own := *obj
		s.Put(r, &own)
		return
	}
	s.version = version
	s.show(r, obj)
}

func (s *Store[R]) show(r R, obj *workv1.ManifestWork) {
	slot := r.Slot()
	previous := slot.Object
	kind := watch.Modified
	if previous == nil {
		kind = watch.Added
		byName := s.namespaces[obj.Namespace]
		if byName == nil {
			byName = map[string]R{}
			s.namespaces[obj.Namespace] = byName
		}
		byName[obj.Name] = r
		s.count++
	}
	slot.Object = obj
	s.publish(event{kind: kind, version: s.version, object: obj, previous: previous})
}

// Restore shows an object of an earlier process under the resourceVersion that it has. It is for a store that nobody
// watches yet; watches cannot resume from before it.
func (s *Store[R]) Restore(r R, obj *workv1.ManifestWork) {
	byName := s.namespaces[obj.Namespace]
	if byName == nil {
		byName = map[string]R{}
		s.namespaces[obj.Namespace] = byName
	}
	byName[obj.Name] = r
	s.count++
	r.Slot().Object = obj
	if version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64); err == nil {
		s.Begin(version)
	}
}

// Begin lets resourceVersions go on above one that another process gave.
func (s *Store[R]) Begin(version uint64) {
	if version <= s.version {
		return
	}
	s.version = version
	if len(s.log.ring) == 0 {
		s.log = newEventLog(version)
	}
}

// LastVersion is Version as a number.
func (s *Store[R]) LastVersion() uint64 { return s.version }

// Remove takes the record's object away: DELETED, with its last state, which is what the store has where last
// is nil.
func (s *Store[R]) Remove(r R, last *workv1.ManifestWork) {
	slot := r.Slot()
	previous := slot.Object
	if previous == nil {
		return
	}
	if last == nil {
		last = previous
	}
	byName := s.namespaces[previous.Namespace]
	delete(byName, previous.Name)
	if len(byName) == 0 {
		delete(s.namespaces, previous.Namespace)
	}
	s.count--
	slot.Object = nil
	s.version++
	final := *last
	final.ResourceVersion = s.Version()
	s.publish(event{kind: watch.Deleted, version: s.version, object: &final, previous: previous})
}

// All calls f for each object of a namespace, or of all with "", in no order.
func (s *Store[R]) All(namespace string, f func(R)) {
	if namespace != metav1.NamespaceAll {
		for _, r := range s.namespaces[namespace] {
			f(r)
		}
		return
	}
	for _, byName := range s.namespaces {
		for _, r := range byName {
			f(r)
		}
	}
}

func (s *Store[R]) publish(e event) {
	s.log.append(e, logSize(s.count))
	s.expireSnapshots()
	for w := range s.watchers[metav1.NamespaceAll] {
		w.offer(e)
	}
	for w := range s.watchers[e.object.Namespace] {
		w.offer(e)
	}
}

// Release lets watches that wait for the end of their initial events have it.
func (s *Store[R]) Release() {
	if !s.held {
		return
	}
	s.held = false
	for _, watchers := range s.watchers {
		for w := range watchers {
			w.release(s.version)
		}
	}
}

// Held reports whether Release is still to come.
func (s *Store[R]) Held() bool { return s.held }

// Close ends all watches, and lets none begin.
func (s *Store[R]) Close() {
	s.closed = true
	for _, watchers := range s.watchers {
		for w := range watchers {
			w.Stop()
		}
	}
	s.watchers = map[string]map[*Watcher]struct{}{}
}

// Closed reports whether Close was called.
func (s *Store[R]) Closed() bool { return s.closed }

// bookmark queues a bookmark for a watcher behind everything that happened so far.
func (s *Store[R]) bookmark(w *Watcher) {
	s.Lock()
	defer s.Unlock()
	if !s.held || !w.markInitialEnd {
		w.offer(event{kind: watch.Bookmark, version: s.version, object: bookmarkObject(s.version)})
	}
}

// forget takes a watcher that has ended off the list.
func (s *Store[R]) forget(w *Watcher) {
	s.Lock()
	defer s.Unlock()
	watchers := s.watchers[w.filter.Namespace]
	delete(watchers, w)
	if len(watchers) == 0 {
		delete(s.watchers, w.filter.Namespace)
	}
}

// bookmarkInterval is how often a watch with bookmarks gets one, as in the API server.
const bookmarkInterval = time.Minute
