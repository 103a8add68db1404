// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"iter"
	"slices"
	"sort"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"
)

// event is one write. previous is the snapshot that it replaced, nil for a new object.
type event struct {
	kind             watch.EventType
	version          uint64
	object, previous *workv1.ManifestWork
	at               time.Duration // since the cache was made
	// cost is roughly the number of bytes that the event keeps in memory in addition to the current
	// objects.
	cost int
}

const (
	// eventBytes is the cost of an event itself: its place in a ring that may be half empty.
	eventBytes = 128
	// leastRing is the smallest ring.
	leastRing = 16
)

// mostEvents returns the largest number of events in the log of a cache with that many objects. A
// list of more objects takes longer, and a watch must be able to begin where the list ended.
func mostEvents(objects int) int { return max(1024, objects/3) }

// eventLog is a ring of the last writes.
type eventLog struct {
	ring  []event
	first int // the oldest
	n     int
	bytes int
	// trimmed is the version of the last write that is no longer in the ring.
	trimmed uint64
	// gaps are versions of other replicas for which the ring may lack writes, in ascending order.
	gaps []gap
}

// gap has the versions between two versions, both excluded.
type gap struct{ from, to uint64 }

// maxGaps bounds the gaps. The oldest is dropped with the writes before its end.
const maxGaps = 1024

// skip adds a gap.
func (l *eventLog) skip(from, to uint64) {
	if to <= from+1 {
		return
	}
	l.gaps = append(l.gaps, gap{from, to})
	if len(l.gaps) > maxGaps {
		to := l.gaps[0].to
		for l.n > 0 && l.at(0).version <= to {
			l.drop()
		}
		l.trim(to)
		l.shrink()
	}
}

// trim records that the writes until a version are no longer in the ring.
func (l *eventLog) trim(version uint64) {
	l.trimmed = max(l.trimmed, version)
	past := 0
	for past < len(l.gaps) && l.gaps[past].to <= l.trimmed {
		past++
	}
	l.gaps = slices.Delete(l.gaps, 0, past)
}

// reaches reports whether the ring has all writes after a version.
func (l *eventLog) reaches(version uint64) bool {
	return version >= l.trimmed &&
		!slices.ContainsFunc(l.gaps, func(g gap) bool { return g.from < version && version < g.to })
}

// append adds a write and drops the oldest ones above the limits of events and bytes.
func (l *eventLog) append(e event, events, bytes int) {
	if l.n == len(l.ring) {
		l.resize(max(leastRing, 2*l.n))
	}
	l.n++
	l.bytes += e.cost
	*l.at(l.n - 1) = e
	for l.n > events || l.bytes > bytes {
		l.drop()
	}
	l.shrink()
}

// expire drops the writes until a time.
func (l *eventLog) expire(until time.Duration) {
	for l.n > 0 && l.at(0).at <= until {
		l.drop()
	}
	l.shrink()
}

// drop removes the oldest write.
func (l *eventLog) drop() {
	e := l.at(0)
	l.trim(e.version)
	l.bytes -= e.cost
	*e = event{}
	l.first = (l.first + 1) % len(l.ring)
	l.n--
}

// shrink replaces a mostly empty ring by a smaller one.
func (l *eventLog) shrink() {
	switch {
	case l.n == 0:
		l.ring, l.first = nil, 0
	case len(l.ring) > leastRing && l.n < len(l.ring)/4:
		l.resize(max(leastRing, 2*l.n))
	}
}

func (l *eventLog) resize(size int) {
	ring := make([]event, size)
	for i := range l.n {
		ring[i] = *l.at(i)
	}
	l.ring, l.first = ring, 0
}

// at returns a write by its age, the oldest first.
func (l *eventLog) at(i int) *event { return &l.ring[(l.first+i)%len(l.ring)] }

// after returns the index of the first write after a version.
func (l *eventLog) after(version uint64) int {
	return sort.Search(l.n, func(i int) bool { return l.at(i).version > version })
}

// since returns the writes after a version, oldest first. It returns false if some of them were
// dropped.
func (l *eventLog) since(version uint64) (iter.Seq[event], bool) {
	if !l.reaches(version) {
		return nil, false
	}
	return func(yield func(event) bool) {
		for i := l.after(version); i < l.n; i++ {
			if !yield(*l.at(i)) {
				return
			}
		}
	}, true
}

// before returns, for each object of a place that was written after a version, its state at that
// version by namespace and name: nil if it did not exist. It returns false if some of the writes
// were dropped.
func (l *eventLog) before(version uint64, of place) (map[place]*workv1.ManifestWork, bool) {
	if !l.reaches(version) {
		return nil, false
	}
	var out map[place]*workv1.ManifestWork
	for i, end := l.n-1, l.after(version); i >= end; i-- { // newest first, so that the oldest write is kept
		e := l.at(i)
		if !of.has(e.object) {
			continue
		}
		if out == nil {
			out = map[place]*workv1.ManifestWork{}
		}
		out[placeOf(e.object)] = e.previous
	}
	return out, true
}

func bookmarkObject(version uint64) *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10)}}
}

func initialEndObject(version uint64) *workv1.ManifestWork {
	obj := bookmarkObject(version)
	obj.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return obj
}
