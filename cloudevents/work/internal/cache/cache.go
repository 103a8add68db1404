// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache keeps the ManifestWorks of one source or agent in memory, like an API server's
// watch cache. It has the objects by namespace and name, a resourceVersion that grows with every
// write, and any number of watchers. A log of the last writes allows watches to resume.
//
// One lock guards a cache and the other state of its owner. The owner calls Lock, decides, and
// calls the methods that change the cache. Objects are snapshots: they never change after they were
// passed to the cache. So they may be read without the lock and shared with watchers.
package cache

import (
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/wait"
)

// Entry is the cache's part of a record: embed it in the owner's type.
type Entry struct {
	// Object is the current snapshot; nil if there is none, as for a tombstone. Only the cache's
	// methods set it.
	Object *workv1.ManifestWork
}

// Slot returns the entry, for the cache.
func (e *Entry) Slot() *Entry { return e }

// Record is the owner's record of a work: a pointer to a struct that embeds [Entry].
type Record interface {
	comparable
	Slot() *Entry
}

// Cache has the works of one source or agent. Every method requires the lock, except those of the
// lock itself, List and WaitReached. For Get, Has, Count, LastVersion, All and Reached the read lock is
// enough.
type Cache[R Record] struct {
	sync.RWMutex

	clock      clock.WithTicker
	version    uint64
	namespaces map[string]map[string]R
	count      int
	log        eventLog
	watchers   map[place]map[*Watcher]struct{} // by the place of their filters
	named      int                             // number of watchers with a name in the filter
	snapshots  []*snapshot
	limits     Limits
	timer      clock.Timer // calls expire; nil if nothing can expire
	began      time.Time
	ends       WatchEnds
	sealed     bool
	closed     bool
	held       bool           // the end marker of initial events waits for Release
	grew       wait.Broadcast // version has changed, or closed
}

// New returns an empty cache. Its first resourceVersion is the time in microseconds, so that a
// version from before a restart is too old rather than unknown. With hold, watches with initial
// events receive their end marker only after Release.
func New[R Record](c clock.WithTicker, hold bool, limits Limits) *Cache[R] {
	began := c.Now()
	start := uint64(began.UnixMicro())
	return &Cache[R]{
		clock:      c,
		began:      began,
		limits:     limits,
		version:    start,
		namespaces: map[string]map[string]R{},
		log:        eventLog{trimmed: start},
		watchers:   map[place]map[*Watcher]struct{}{},
		held:       hold,
	}
}

// Get returns the record with an object of this name, or the zero R.
func (s *Cache[R]) Get(namespace, name string) R { return s.namespaces[namespace][name] }

// Has reports whether a namespace has objects.
func (s *Cache[R]) Has(namespace string) bool { return len(s.namespaces[namespace]) > 0 }

// Count returns the number of objects of a namespace.
func (s *Cache[R]) Count(namespace string) int { return len(s.namespaces[namespace]) }

// Put sets the record's object: the event is ADDED if it had none, otherwise MODIFIED. Put sets the
// object's resourceVersion. After that the object must not change.
func (s *Cache[R]) Put(r R, obj *workv1.ManifestWork) {
	s.stamp(obj)
	s.show(r, obj)
}

// stamp sets an object's resourceVersion to the next version.
func (s *Cache[R]) stamp(obj *workv1.ManifestWork) {
	s.raise(s.version + 1)
	obj.ResourceVersion = strconv.FormatUint(s.version, 10)
}

// raise sets the version, unless it is higher already.
func (s *Cache[R]) raise(version uint64) {
	if version > s.version {
		s.version = version
		s.grew.Wake()
	}
}

// PutAs is Put for an object of another replica. The object keeps its resourceVersion, version.
func (s *Cache[R]) PutAs(r R, obj *workv1.ManifestWork, version uint64) {
	s.raise(version)
	s.show(r, obj)
}

func (s *Cache[R]) show(r R, obj *workv1.ManifestWork) {
	slot := r.Slot()
	previous := slot.Object
	kind := watch.Modified
	if previous == nil {
		kind = watch.Added
		s.add(r, obj)
	}
	slot.Object = obj
	e := event{kind: kind, version: s.version, object: obj, previous: previous, cost: eventBytes}
	if previous != nil {
		e.cost += unshared(previous, obj)
	}
	s.publish(e)
}

// add adds a new object to the index.
func (s *Cache[R]) add(r R, obj *workv1.ManifestWork) {
	byName := s.namespaces[obj.Namespace]
	if byName == nil {
		byName = map[string]R{}
		s.namespaces[obj.Namespace] = byName
	}
	byName[obj.Name] = r
	s.count++
}

// Restore adds an object of an earlier process and keeps its resourceVersion. The cache must have
// no watches yet, and watches cannot resume from an earlier version.
func (s *Cache[R]) Restore(r R, obj *workv1.ManifestWork) {
	s.add(r, obj)
	r.Slot().Object = obj
	if version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64); err == nil {
		s.Begin(version)
	}
}

// Begin continues resourceVersions above one that another process assigned.
func (s *Cache[R]) Begin(version uint64) {
	if version <= s.version {
		return
	}
	s.raise(version)
	if s.log.n == 0 {
		s.log = eventLog{trimmed: version}
	}
}

// Advance ends a step from one version to another. With gap, the log does not have all changes
// between the two: watches cannot resume there.
func (s *Cache[R]) Advance(from, to uint64, gap bool) {
	s.raise(to)
	if gap {
		s.log.skip(from, to)
	}
}

// Rewind sets the version of objects that are not successors of the previous ones. All watches end
// with the error Expired, and no watch resumes from another version.
func (s *Cache[R]) Rewind(version uint64) {
	for _, watchers := range s.watchers {
		for w := range watchers {
			s.ends.Expired++
			w.fail(apierrors.NewResourceExpired("the objects of this watch were replaced"))
		}
	}
	s.watchers, s.named = map[place]map[*Watcher]struct{}{}, 0
	s.log, s.snapshots = eventLog{trimmed: version}, nil
	s.version = version
	s.grew.Wake()
}

// LastVersion returns the resourceVersion of the last write.
func (s *Cache[R]) LastVersion() uint64 { return s.version }

// Remove removes the record's object. The event is DELETED, with the state last, or the current
// object if last is nil.
func (s *Cache[R]) Remove(r R, last *workv1.ManifestWork) { s.RemoveAs(r, last, s.version+1) }

// RemoveAs is Remove with the version of another replica.
func (s *Cache[R]) RemoveAs(r R, last *workv1.ManifestWork, version uint64) {
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
	final := *last
	s.raise(version)
	final.ResourceVersion = strconv.FormatUint(s.version, 10)
	cost := eventBytes + objectBytes + unshared(previous, &nothing)
	if last != previous {
		cost += unshared(last, previous)
	}
	s.publish(event{kind: watch.Deleted, version: s.version, object: &final, previous: previous, cost: cost})
}

// All calls f for each object of a namespace, or of all namespaces with "", in no order.
func (s *Cache[R]) All(namespace string, f func(R)) { s.each(place{namespace: namespace}, f) }

// each calls f for each object of a place, in no order. If the place has a name, it is looked up in
// each namespace.
func (s *Cache[R]) each(of place, f func(R)) {
	if of.namespace != metav1.NamespaceAll {
		eachIn(s.namespaces[of.namespace], of.name, f)
		return
	}
	for _, byName := range s.namespaces {
		eachIn(byName, of.name, f)
	}
}

func eachIn[R Record](byName map[string]R, name string, f func(R)) {
	if name != "" {
		if r, ok := byName[name]; ok {
			f(r)
		}
		return
	}
	for _, r := range byName {
		f(r)
	}
}

func (s *Cache[R]) publish(e event) {
	e.at = s.now()
	s.log.append(e, mostEvents(s.count), s.limits.Bytes)
	if len(s.snapshots) > 0 {
		for _, snap := range s.snapshots {
			snap.replaced(&e)
		}
		s.limitSnapshots()
	}
	s.expireAt(e.at)
	s.offer(&e, place{})
	s.offer(&e, place{namespace: e.object.Namespace})
	if s.named > 0 {
		s.offer(&e, place{name: e.object.Name})
		s.offer(&e, placeOf(e.object))
	}
}

// offer passes a write to the watchers with filters for a place.
func (s *Cache[R]) offer(e *event, of place) {
	for w := range s.watchers[of] {
		w.offerLocked(e)
	}
}

// Release sends the end marker of initial events to the watches that wait for it.
func (s *Cache[R]) Release() {
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

// Held reports whether Release has yet to be called.
func (s *Cache[R]) Held() bool { return s.held }

// Seal records that the owner accepts no more writes of its users. It may still change objects.
func (s *Cache[R]) Seal() { s.sealed = true }

// Sealed reports whether Seal or Close was called.
func (s *Cache[R]) Sealed() bool { return s.sealed || s.closed }

// Close ends all watches, refuses new ones, and drops the log and the snapshots.
func (s *Cache[R]) Close() {
	s.closed = true
	for _, watchers := range s.watchers {
		for w := range watchers {
			w.Stop()
		}
	}
	s.watchers, s.named = map[place]map[*Watcher]struct{}{}, 0
	s.log, s.snapshots = eventLog{trimmed: s.version}, nil
	s.grew.Wake()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// Closed reports whether Close was called.
func (s *Cache[R]) Closed() bool { return s.closed }

// bookmark queues a bookmark for a watcher.
func (s *Cache[R]) bookmark(w *Watcher) {
	s.Lock()
	defer s.Unlock()
	w.offerLocked(&event{kind: watch.Bookmark, version: s.version, object: bookmarkObject(s.version)})
}

func (s *Cache[R]) enter(w *Watcher) {
	of := w.filter.place()
	watchers := s.watchers[of]
	if watchers == nil {
		watchers = map[*Watcher]struct{}{}
		s.watchers[of] = watchers
	}
	watchers[w] = struct{}{}
	if of.name != "" {
		s.named++
	}
}

// forget removes a watcher that has ended.
func (s *Cache[R]) forget(w *Watcher) {
	s.Lock()
	defer s.Unlock()
	of := w.filter.place()
	watchers := s.watchers[of]
	if _, ok := watchers[w]; !ok {
		return
	}
	delete(watchers, w)
	if len(watchers) == 0 {
		delete(s.watchers, of)
	}
	if of.name != "" {
		s.named--
	}
}

// bookmarkInterval is the time between bookmarks of a watch, as in the API server.
const bookmarkInterval = time.Minute

// heldInterval is that time while the end marker of the initial events is held. Reflectors of client-go
// log a warning after each 10 s without an event before the marker.
const heldInterval = 5 * time.Second
