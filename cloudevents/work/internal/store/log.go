// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
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

// logSize bounds how many writes a watch may be behind and still resume. Each keeps a superseded snapshot
// alive, so the log is small: a client that is further behind lists again.
const logSize = 1024

// eventLog is a ring of the last writes.
type eventLog struct {
	ring []event
	next int
	// trimmed is the version of the last write that is no longer in the ring.
	trimmed uint64
}

func newEventLog(start uint64) eventLog { return eventLog{trimmed: start} }

func (l *eventLog) append(e event) {
	if len(l.ring) < logSize {
		l.ring = append(l.ring, e)
		return
	}
	l.trimmed = l.ring[l.next].version
	l.ring[l.next] = e
	l.next = (l.next + 1) % logSize
}

// since returns the writes after a version, oldest first; false when some of them are no longer there.
func (l *eventLog) since(version uint64) (iter.Seq[event], bool) {
	if version < l.trimmed {
		return nil, false
	}
	return func(yield func(event) bool) {
		for i := range l.ring {
			e := l.ring[(l.next+i)%len(l.ring)]
			if e.version > version && !yield(e) {
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
	for i := range l.ring {
		e := l.ring[(l.next+len(l.ring)-1-i)%len(l.ring)] // newest first, so that the oldest has the last word
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
