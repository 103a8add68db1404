// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"math/bits"
	"sort"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"
)

// event is one write. previous is the snapshot that it replaced, nil for a new object.
type event struct {
	kind             watch.EventType
	version          uint64
	object, previous *workv1.ManifestWork
}

// leastLog is how many writes a watch may be behind and still resume, in a small store; in a large one it is a quarter
// of the objects at least, since a list of them takes as much longer, and a watch must be able to begin where a list ended. Each
// write keeps a superseded snapshot alive: a client that is further behind lists again.
const leastLog = 1024

// logSize is how many writes a store of so many objects remembers: a power of two, so that the ring seldom changes.
func logSize(objects int) int {
	return max(leastLog, 1<<bits.Len(uint(objects/4)))
}

// eventLog is a ring of the last writes.
type eventLog struct {
	ring  []event
	first int // the oldest
	// trimmed is the version of the last write that is no longer in the ring.
	trimmed uint64
}

func newEventLog(start uint64) eventLog { return eventLog{trimmed: start} }

// append adds a write and keeps no more than size.
func (l *eventLog) append(e event, size int) {
	if len(l.ring) < size {
		if l.first != 0 {
			l.ring = append(append(make([]event, 0, size), l.ring[l.first:]...), l.ring[:l.first]...)
			l.first = 0
		}
		l.ring = append(l.ring, e)
		return
	}
	if len(l.ring) > 2*size {
		l.shrink(size)
	}
	l.trimmed = l.ring[l.first].version
	l.ring[l.first] = e
	l.first = (l.first + 1) % len(l.ring)
}

// shrink keeps the last writes.
func (l *eventLog) shrink(size int) {
	ring := make([]event, 0, size)
	gone := len(l.ring) - size
	for i := range size {
		ring = append(ring, *l.at(gone + i))
	}
	l.trimmed = l.at(gone - 1).version
	l.ring, l.first = ring, 0
}

// at returns a write by its age, the oldest first.
func (l *eventLog) at(i int) *event { return &l.ring[(l.first+i)%len(l.ring)] }

// since returns the writes after a version, oldest first; false when some of them are no longer there.
func (l *eventLog) since(version uint64) (iter.Seq[event], bool) {
	if version < l.trimmed {
		return nil, false
	}
	return func(yield func(event) bool) {
		begin := sort.Search(len(l.ring), func(i int) bool { return l.at(i).version > version })
		for i := begin; i < len(l.ring); i++ {
			if !yield(*l.at(i)) {
				return
			}
		}
	}, true
}

// before returns, for each object written after a version, its state at that version by namespace and name: nil
// where it did not exist. It returns false when some of the writes are no longer there.
func (l *eventLog) before(version uint64) (map[string]*workv1.ManifestWork, bool) {
	if version < l.trimmed {
		return nil, false
	}
	out := map[string]*workv1.ManifestWork{}
	for i := len(l.ring) - 1; i >= 0; i-- { // newest first, so that the oldest has the last word
		e := l.at(i)
		if e.version <= version {
			break
		}
		out[key(e.object)] = e.previous
	}
	return out, true
}

func key(obj *workv1.ManifestWork) string { return obj.Namespace + "/" + obj.Name }

func bookmarkObject(version uint64) *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10)}}
}

func initialEndObject(version uint64) *workv1.ManifestWork {
	obj := bookmarkObject(version)
	obj.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return obj
}
