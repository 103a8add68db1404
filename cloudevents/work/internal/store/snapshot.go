// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Query is what a list asks for.
type Query struct {
	Filter
	// At is the version of which the list is; 0 for the current one.
	At uint64
	// Limit bounds the objects of one page; 0 for none.
	Limit int
	// AfterNamespace and AfterName are the last object of the page before; both empty for the first page.
	AfterNamespace, AfterName string
}

// Page is the answer: snapshots by namespace and name.
type Page struct {
	Objects []*workv1.ManifestWork
	// Version is what the objects are of.
	Version uint64
	// Left is how many objects come after the page, before the filter's selectors were asked; More is whether one of
	// them is known to pass.
	Left int
	More bool
}

const (
	// mostSnapshots is how many lists in pages can go on at once, each with the state that it began with.
	mostSnapshots = 8
	// snapshotTTL is how long a list may pause between two pages: as long as an API server keeps old versions.
	snapshotTTL = 5 * time.Minute
)

// snapshot is what a namespace, or all with "", had at a version, in order. The pages of a list are cut from one, so
// that they fit together and none of them costs more than what it has.
type snapshot struct {
	namespace string
	version   uint64
	objects   []*workv1.ManifestWork
	used      time.Time
}

// List answers a query. Unlike the other methods it takes the lock itself, and holds it no longer than it takes to
// collect the objects: they are sorted and searched without it. It fails with Expired when At is too long ago, and with
// Timeout when it is in the future.
func (s *Store[R]) List(q *Query) (Page, error) {
	if q.Limit == 0 && q.AfterNamespace == "" && q.AfterName == "" {
		return s.listWhole(q)
	}
	snap, err := s.snapshot(q)
	if err != nil {
		return Page{}, err
	}
	return snap.page(q), nil
}

func (s *Store[R]) listWhole(q *Query) (Page, error) {
	s.Lock()
	page := Page{Version: s.version}
	var err error
	if q.At == 0 {
		page.Objects = s.collect(&q.Filter, nil)
	} else {
		page.Version = q.At
		page.Objects, err = s.collectAt(&q.Filter, q.At)
	}
	s.Unlock()
	sortObjects(page.Objects)
	return page, err
}

// snapshot returns the one that a page is cut from, which the first page of a list makes.
func (s *Store[R]) snapshot(q *Query) (*snapshot, error) {
	s.Lock()
	version := cmp.Or(q.At, s.version)
	for _, snap := range s.snapshots {
		if snap.namespace == q.Namespace && snap.version == version {
			snap.used = s.clock.Now()
			s.Unlock()
			return snap, nil
		}
	}
	objects, err := s.collectAt(&Filter{Namespace: q.Namespace}, version)
	s.Unlock()
	if err != nil {
		return nil, err
	}
	sortObjects(objects)
	snap := &snapshot{namespace: q.Namespace, version: version, objects: objects}
	s.Lock()
	defer s.Unlock()
	snap.used = s.clock.Now()
	if len(s.snapshots) == mostSnapshots {
		oldest := slices.MinFunc(s.snapshots, func(a, b *snapshot) int { return a.used.Compare(b.used) })
		s.snapshots = slices.DeleteFunc(s.snapshots, func(snap *snapshot) bool { return snap == oldest })
	}
	s.snapshots = append(s.snapshots, snap)
	return snap, nil
}

// expireSnapshots forgets what no list has used for long: it keeps superseded objects alive.
func (s *Store[R]) expireSnapshots() {
	if len(s.snapshots) == 0 {
		return
	}
	now := s.clock.Now()
	s.snapshots = slices.DeleteFunc(s.snapshots, func(snap *snapshot) bool { return now.Sub(snap.used) > snapshotTTL })
}

// page cuts one page out. An object beyond it is looked for, so that the last page says that it is.
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

// collect returns the objects that the filter takes, in no order, with some as they were: nil stands for none. The lock
// is held.
func (s *Store[R]) collect(f *Filter, were map[string]*workv1.ManifestWork) []*workv1.ManifestWork {
	var out []*workv1.ManifestWork
	if f.Labels == nil && f.Fields == nil {
		n := s.count
		if f.Namespace != metav1.NamespaceAll {
			n = len(s.namespaces[f.Namespace])
		}
		out = make([]*workv1.ManifestWork, 0, n)
	}
	s.All(f.Namespace, func(r R) {
		obj := r.Slot().Object
		if len(were) > 0 {
			if _, ok := were[key(obj)]; ok {
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

// collectAt is collect for a version.
func (s *Store[R]) collectAt(f *Filter, version uint64) ([]*workv1.ManifestWork, error) {
	if err := s.Reached(version); err != nil {
		return nil, err
	}
	changed, ok := s.log.before(version)
	if !ok {
		return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return s.collect(f, changed), nil
}

// Reached returns the error Timeout for a version from the future.
func (s *Store[R]) Reached(version uint64) error {
	if version > s.version {
		return tooLargeVersion(version, s.version)
	}
	return nil
}

func sortObjects(objects []*workv1.ManifestWork) {
	slices.SortFunc(objects, func(a, b *workv1.ManifestWork) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
