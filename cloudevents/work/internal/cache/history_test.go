// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// report replaces the status of an object by a status of size bytes. It changes no other field.
func (s *script) report(namespace, name string, size int) string {
	s.cache.Lock()
	defer s.cache.Unlock()
	r := s.records[namespace+"/"+name]
	obj := *r.Object
	obj.Status.Conditions = []metav1.Condition{{Message: string(bytes.Repeat([]byte("x"), size))}}
	s.cache.Put(r, &obj)
	return obj.ResourceVersion
}

// liveHeap returns the bytes of heap in use.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 { // the second collection frees objects that finalizers and pools keep
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func expectHeap(t *testing.T, what string, before, atMost int64) {
	t.Helper()
	if more := liveHeap() - before; more > atMost {
		t.Errorf("%s, the heap has %.1f MiB more, want at most %.1f", what, float64(more)/(1<<20), float64(atMost)/(1<<20))
	}
}

// TestResume: a watch resumes after 1,024 writes, or after a third as many writes as there are
// objects. It receives exactly the later events, at every size of the cache. A list returns exactly
// the requested version.
func TestResume(t *testing.T) {
	for _, size := range []int{1, 7, 3071, 3072, 3075, 6000, 16384, 50_000, 100_000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			run(t, false, func(s *script) {
				for i := range size {
					s.put("a", strconv.Itoa(i))
				}
				most := max(1024, size/3)
				versions := []uint64{}
				for i := range most + 1 {
					versions = append(versions, version(t, s.put("a", strconv.Itoa(i*31%size))))
				}
				for _, i := range []int{0, 1, most / 2, most - 1, most} {
					w := s.watch(cache.WatchOptions{Resume: true, Since: versions[i]})
					if got, want := len(drain(w)), most-i; got != want {
						t.Errorf("after %d writes: %d events, want %d", want, got, want)
					}
					w.Stop()
				}
				if page := s.list(cache.Query{At: versions[0]}); len(page.Objects) != size {
					t.Errorf("after %d writes: a list of %d objects, want %d", most, len(page.Objects), size)
				}
				expect(t, s.watch(cache.WatchOptions{Resume: true, Since: versions[0] - 1}), "ERROR Expired", "CLOSED")
			})
		})
	}
}

// TestResumeWhileCacheShrinks: a watch resumes after the deletion of a quarter of the objects,
// or of 1,024 objects if that is more.
func TestResumeWhileCacheShrinks(t *testing.T) {
	run(t, false, func(s *script) {
		const size = 40_000
		for i := range size {
			s.put("a", strconv.Itoa(i))
		}
		left := size
		for left > 0 {
			begin, n := s.current(), max(min(left, 1024), left/4)
			for range n {
				left--
				s.remove("a", strconv.Itoa(left))
			}
			w := s.watch(cache.WatchOptions{Resume: true, Since: begin})
			if got := len(drain(w)); got != n {
				t.Errorf("with %d objects left: %d events, want %d", left, got, n)
			}
			w.Stop()
		}
	})
}

// TestLogIsBoundedInBytes: large statuses of one work do not accumulate, and a watch can resume
// from the newest of them.
func TestLogIsBoundedInBytes(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "one")
		before := liveHeap()
		var versions []uint64
		for range 400 {
			versions = append(versions, version(t, s.report("a", "one", 2<<20)))
		}
		expectHeap(t, "after 400 statuses of 2 MiB", before, 64<<20+4<<20)
		w := s.watch(cache.WatchOptions{Resume: true, Since: versions[len(versions)-31]})
		if got := len(drain(w)); got != 30 {
			t.Errorf("%d of the last 30 events", got)
		}
		w.Stop()
		expect(t, s.watch(cache.WatchOptions{Resume: true, Since: versions[len(versions)-34]}), "ERROR Expired", "CLOSED")
		if _, err := s.cache.List(&cache.Query{At: versions[len(versions)-34]}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a list of an older version: %v", err)
		}
	})
}

// TestLogCountsSharedBytesOnce: small statuses of a large work are charged their own size, not the
// size of the work.
func TestLogCountsSharedBytesOnce(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "one", "large", string(bytes.Repeat([]byte("x"), 1<<20)))
		begin := s.current()
		for range 1000 {
			s.report("a", "one", 10)
		}
		if got := len(drain(s.watch(cache.WatchOptions{Resume: true, Since: begin}))); got != 1000 {
			t.Errorf("a watch got %d events, want 1000", got)
		}
	})
}

// TestLogExpiresByAge: versions older than the limit are Expired and release their memory, also in
// an idle cache.
func TestLogExpiresByAge(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "one")
		s.put("a", "two")
		before := liveHeap()
		begin := s.current()
		s.list(cache.Query{Limit: 1}) // its snapshot has the current statuses
		for range 30 {
			s.report("a", "one", 1<<20)
		}
		time.Sleep(limits.Age - time.Second)
		w := s.watch(cache.WatchOptions{Resume: true, Since: begin})
		if got := len(drain(w)); got != 30 {
			t.Errorf("before they are too old: %d of 30 events", got)
		}
		w.Stop()
		time.Sleep(time.Second)
		expect(t, s.watch(cache.WatchOptions{Resume: true, Since: begin}), "ERROR Expired", "CLOSED")
		if _, err := s.cache.List(&cache.Query{At: begin}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a list of an older version: %v", err)
		}
		last := s.current()
		for i := range 20_000 {
			s.put("b", strconv.Itoa(i))
		}
		for i := range 20_000 {
			s.remove("b", strconv.Itoa(i))
			delete(s.records, "b/"+strconv.Itoa(i))
		}
		s.records["a/one"].Object.Status.Conditions = nil
		time.Sleep(limits.Age + limits.Age/10) // idle
		expectHeap(t, "on an idle cache", before, 1<<20)
		expect(t, s.watch(cache.WatchOptions{Resume: true, Since: last}), "ERROR Expired", "CLOSED")
		if got := len(drain(s.watch(cache.WatchOptions{Resume: true, Since: s.current()}))); got != 0 {
			t.Errorf("from now: %d events", got)
		}
	})
}

// TestSnapshotsAreBounded: a paged list ends with Expired when its snapshot alone keeps more bytes
// than the limit. Objects that still exist do not count, and neither do intermediate writes of one
// object.
func TestSnapshotsAreBounded(t *testing.T) {
	run(t, false, func(s *script) {
		const objects = 100
		for i := range objects {
			s.put("a", fmt.Sprintf("w%02d", i))
			s.report("a", fmt.Sprintf("w%02d", i), 1<<20)
		}
		before := liveHeap()
		begin := func() cache.Query {
			page := s.list(cache.Query{Limit: 5})
			return cache.Query{Limit: 5, At: page.Version, AfterNamespace: "a", AfterName: "w04"}
		}
		next := begin()
		for range 2000 {
			s.report("a", "w01", 1<<20)
		}
		if got := s.list(next); len(got.Objects) != 5 {
			t.Errorf("after many writes of one object: %d objects", len(got.Objects))
		}
		for i := range 50 {
			s.report("a", fmt.Sprintf("w%02d", i), 1<<20)
		}
		if got := s.list(next); len(got.Objects) != 5 {
			t.Errorf("after writes of a half: %d objects", len(got.Objects))
		}
		expectHeap(t, "with a list of which a half is superseded", before, 2*64<<20+8<<20)
		var others []cache.Query
		for i := range objects {
			if i%20 == 0 {
				others = append(others, begin())
			}
			s.report("a", fmt.Sprintf("w%02d", i), 1<<20)
		}
		if _, err := s.cache.List(&next); !apierrors.IsResourceExpired(err) {
			t.Errorf("after writes of all: %v", err)
		}
		expectHeap(t, "with several lists of superseded objects", before, 2*64<<20+8<<20)
		if got := s.list(others[len(others)-1]); len(got.Objects) != 5 {
			t.Errorf("the newest list: %d objects", len(got.Objects))
		}
	})
}

// TestSlowWatcher: a watcher that does not read ends with Expired once its events have more bytes
// than the limit, whatever their number. It releases all of them, and never delays other watchers.
func TestSlowWatcher(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "one")
		for i := range 100 {
			s.put("b", strconv.Itoa(i))
			s.report("b", strconv.Itoa(i), 1<<20)
		}
		before := liveHeap()
		slow, quick := s.watch(cache.WatchOptions{}), s.watch(cache.WatchOptions{})
		patient := s.watch(cache.WatchOptions{Filter: cache.Filter{Namespace: "a"}})
		if got := len(drain(quick)); got != 101 {
			t.Fatalf("the quick watcher begins with %d events", got)
		}
		for range 30_000 {
			s.put("a", "one")
			synctest.Wait()
			<-quick.ResultChan()
		}
		expectStats(t, s, cache.Stats{Objects: 101, Watchers: 3})
		for i := range 100 {
			s.report("b", strconv.Itoa(i), 1<<20)
			synctest.Wait()
			<-quick.ResultChan()
		}
		expectStats(t, s, cache.Stats{Objects: 101, Watchers: 3, WatchEnds: cache.WatchEnds{Slow: 1}})
		if got := len(drain(patient)); got != 30_001 {
			t.Errorf("the watcher of few bytes got %d events, want 30001", got)
		}
		expectHeap(t, "with a watcher that is too slow", before, 64<<20+16<<20)
		events := drain(slow)
		if n := len(events); n > 4 || events[n-2] != "ERROR Expired" || events[n-1] != "CLOSED" {
			t.Errorf("the slow watcher ended with %v", events)
		}
	})
}

// TestSlowWatcherBySelector: the last states of objects that left a watcher's selector count
// towards the limit, although later writes of these objects do not reach the watcher.
func TestSlowWatcherBySelector(t *testing.T) {
	run(t, false, func(s *script) {
		selector := labels.SelectorFromSet(labels.Set{"x": "1"})
		w := s.watch(cache.WatchOptions{Filter: cache.Filter{Labels: selector}})
		before := liveHeap()
		for range 400 {
			s.put("a", "one", "x", "1")
			s.report("a", "one", 1<<20)
			s.put("a", "one")
		}
		expectHeap(t, "with a watcher that does not read", before, 2*64<<20+8<<20)
		events := drain(w)
		if n := len(events); n < 2 || events[n-2] != "ERROR Expired" {
			t.Errorf("the slow watcher ended with %v", events[max(0, n-3):])
		}
	})
}

// current returns the last resourceVersion.
func (s *script) current() uint64 {
	s.cache.Lock()
	defer s.cache.Unlock()
	return s.cache.LastVersion()
}
