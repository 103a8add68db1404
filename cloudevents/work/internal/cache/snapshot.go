// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Query is the request of a list.
type Query struct {
	Filter
	// At is the version of the list; 0 for the current one.
	At uint64
	// Limit bounds the objects of one page; 0 for no limit.
	Limit int
	// AfterNamespace and AfterName are those of the last object of the previous page; both empty
	// for the first page.
	AfterNamespace, AfterName string
}

// Page is the answer: snapshots by namespace and name.
type Page struct {
	Objects []*workv1.ManifestWork
	// Version is the version of the list.
	Version uint64
	// Left is the number of objects after the page, without regard to the filter's selectors. More
	// is whether at least one of them matches.
	Left int
	More bool
}

// mostSnapshots is the number of concurrent lists in pages, each with a snapshot of its version.
const mostSnapshots = 8

// snapshot has the objects of a place at a version, in order. All pages of a list are parts of one
// snapshot, so they are consistent and each costs no more than its own objects.
type snapshot struct {
	place   place
	version uint64
	objects []*workv1.ManifestWork
	used    atomic.Int64 // time of the last use, since the cache was made
	// bytes is roughly the memory that the snapshot keeps in addition to the current objects.
	bytes int
}

// List answers a query. Unlike the other methods it locks the cache itself, only to collect the
// objects: they are sorted and searched without the lock. The error is Expired if At is too old,
// and Timeout if it is in the future.
func (s *Cache[R]) List(q *Query) (Page, error) {
	if q.Limit == 0 && q.AfterNamespace == "" && q.AfterName == "" {
		page, _, err := s.pageAt(&q.Filter, q.At, false)
		slices.SortFunc(page.Objects, compareObjects)
		return page, err
	}
	snap, kept, err := s.snapshot(q)
	if err != nil {
		return Page{}, err
	}
	page := snap.page(q)
	if page.More && !kept {
		s.keep(snap)
	}
	return page, nil
}

// snapshot returns the snapshot of a page, and whether the cache keeps it already.
func (s *Cache[R]) snapshot(q *Query) (snap *snapshot, kept bool, err error) {
	page, snap, err := s.pageAt(&Filter{Namespace: q.Namespace, Name: q.Name}, q.At, true)
	if snap != nil || err != nil {
		return snap, snap != nil, err
	}
	slices.SortFunc(page.Objects, compareObjects)
	return newSnapshot(q.place(), page.Version, page.Objects), false, nil
}

// pageAt returns the matching objects at a version, 0 for the current one, in no order. With
// snapshots, it returns the kept snapshot of that version instead, if there is one. It takes the
// write lock only to read the log.
func (s *Cache[R]) pageAt(f *Filter, version uint64, snapshots bool) (Page, *snapshot, error) {
	s.RLock()
	if version == 0 {
		version = s.version
	}
	if snapshots {
		if snap := s.findSnapshot(f.place(), version); snap != nil {
			s.RUnlock()
			return Page{}, snap, nil
		}
	}
	if version == s.version {
		defer s.RUnlock()
		return Page{Version: version, Objects: s.collectLocked(f, nil)}, nil, nil
	}
	s.RUnlock()
	s.Lock()
	defer s.Unlock()
	objects, err := s.collectAt(f, version)
	return Page{Version: version, Objects: objects}, nil, err
}

func newSnapshot(of place, version uint64, objects []*workv1.ManifestWork) *snapshot {
	const pointerBytes = 8
	return &snapshot{place: of, version: version, objects: objects, bytes: eventBytes + pointerBytes*cap(objects)}
}

// findSnapshot returns the kept snapshot of a place and version, and records its use.
func (s *Cache[R]) findSnapshot(of place, version uint64) *snapshot {
	now := s.now()
	for _, snap := range s.snapshots {
		if snap.place == of && snap.version == version && snap.lastUse() > now-s.limits.Age {
			snap.used.Store(int64(now))
			return snap
		}
	}
	return nil
}

// keep stores a snapshot for the following pages.
func (s *Cache[R]) keep(snap *snapshot) {
	s.Lock()
	defer s.Unlock()
	events, ok := s.log.since(snap.version)
	if !ok || s.closed || s.findSnapshot(snap.place, snap.version) != nil {
		return
	}
	for e := range events {
		snap.replaced(&e)
	}
	snap.used.Store(int64(s.now()))
	s.snapshots = append(s.snapshots, snap)
	s.limitSnapshots()
	s.arm()
}

func (snap *snapshot) lastUse() time.Duration { return time.Duration(snap.used.Load()) }

// replaced counts the memory that a snapshot keeps of an object that a write has replaced.
func (snap *snapshot) replaced(e *event) {
	if e.previous == nil || !snap.place.has(e.previous) {
		return
	}
	i, found := slices.BinarySearchFunc(snap.objects, e.previous, compareObjects)
	if !found {
		return
	}
	own, next := snap.objects[i], e.object
	if e.kind == watch.Deleted {
		next = &nothing
	}
	if own != e.previous {
		snap.bytes -= unshared(own, e.previous)
	}
	snap.bytes += unshared(own, next)
}

// limitSnapshots drops the least recently used snapshots while there are too many or they are too
// large.
func (s *Cache[R]) limitSnapshots() {
	bytes := 0
	for _, snap := range s.snapshots {
		bytes += snap.bytes
	}
	for len(s.snapshots) > mostSnapshots || bytes > s.limits.Bytes {
		oldest := slices.MinFunc(s.snapshots, func(a, b *snapshot) int { return cmp.Compare(a.lastUse(), b.lastUse()) })
		s.snapshots = slices.DeleteFunc(s.snapshots, func(snap *snapshot) bool { return snap == oldest })
		bytes -= oldest.bytes
	}
}

// page returns one page. It also looks for an object after the page, so that the last page has More
// false.
func (snap *snapshot) page(q *Query) Page {
	first, found := slices.BinarySearchFunc(snap.objects, q, func(obj *workv1.ManifestWork, q *Query) int {
		return cmp.Or(cmp.Compare(obj.Namespace, q.AfterNamespace), cmp.Compare(obj.Name, q.AfterName))
	})
	if found {
		first++
	}
	page := Page{Version: snap.version}
	for i, obj := range snap.objects[first:] {
		if !q.Matches(obj) {
			continue
		}
		if q.Limit > 0 && len(page.Objects) == q.Limit {
			page.More, page.Left = true, len(snap.objects)-first-i
			break
		}
		page.Objects = append(page.Objects, obj)
	}
	return page
}

// collectLocked returns the matching objects, in no order. were replaces some objects by earlier
// states; nil stands for an object that did not exist.
func (s *Cache[R]) collectLocked(f *Filter, were map[place]*workv1.ManifestWork) []*workv1.ManifestWork {
	var out []*workv1.ManifestWork
	if f.Labels == nil && f.Fields == nil && f.Name == "" {
		n := s.count
		if f.Namespace != metav1.NamespaceAll {
			n = len(s.namespaces[f.Namespace])
		}
		out = make([]*workv1.ManifestWork, 0, n)
	}
	s.each(f.place(), func(r R) {
		obj := r.Slot().Object
		if len(were) > 0 {
			if _, ok := were[placeOf(obj)]; ok {
				return
			}
		}
		if f.Matches(obj) {
			out = append(out, obj)
		}
	})
	for _, obj := range were {
		if obj != nil && f.Matches(obj) {
			out = append(out, obj)
		}
	}
	return out
}

// collectAt is collectLocked for a version.
func (s *Cache[R]) collectAt(f *Filter, version uint64) ([]*workv1.ManifestWork, error) {
	if err := s.Reached(version); err != nil {
		return nil, err
	}
	s.expire()
	changed, ok := s.log.before(version, f.place())
	if !ok {
		return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return s.collectLocked(f, changed), nil
}

// versionWait is how long WaitReached waits, as in the API server.
const versionWait = 3 * time.Second

// WaitReached waits until the cache has a version, up to 3 s. It returns the error Timeout for a
// version from the future. It locks the cache itself.
func (s *Cache[R]) WaitReached(ctx context.Context, version uint64) error {
	s.RLock()
	err := s.Reached(version)
	s.RUnlock()
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	for {
		s.Lock()
		err, grew, closed := s.Reached(version), s.grew.Next(), s.closed
		s.Unlock()
		if err == nil || closed {
			return err
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return err
		}
	}
}

// Reached returns the error Timeout for a version from the future.
func (s *Cache[R]) Reached(version uint64) error {
	if version > s.version {
		return tooLargeVersion(version, s.version)
	}
	return nil
}

func compareObjects(a, b *workv1.ManifestWork) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
