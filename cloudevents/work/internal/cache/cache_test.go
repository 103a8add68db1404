// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

type record struct{ cache.Entry }

// script drives a cache and its watches inside a synctest bubble.
type script struct {
	t       *testing.T
	cache   *cache.Cache[*record]
	records map[string]*record
}

// limits are the limits of the default options.
var limits = cache.Limits{Bytes: 64 << 20, Age: 5 * time.Minute}

func run(t *testing.T, hold bool, f func(*script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&script{t: t, cache: cache.New[*record](clock.RealClock{}, hold, limits), records: map[string]*record{}})
	})
}

// put writes an object; its labels are pairs of key and value.
func (s *script) put(namespace, name string, kv ...string) string {
	s.cache.Lock()
	defer s.cache.Unlock()
	r := s.records[namespace+"/"+name]
	if r == nil {
		r = &record{}
		s.records[namespace+"/"+name] = r
	}
	obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{}}}
	for i := 0; i < len(kv); i += 2 {
		obj.Labels[kv[i]] = kv[i+1]
	}
	s.cache.Put(r, obj)
	return obj.ResourceVersion
}

func (s *script) remove(namespace, name string) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.cache.Remove(s.records[namespace+"/"+name], nil)
}

func (s *script) watch(o cache.WatchOptions) *cache.Watcher {
	s.t.Helper()
	s.cache.Lock()
	defer s.cache.Unlock()
	w, err := s.cache.Watch(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	return w
}

// drain reads all available events, as "TYPE name".
func drain(w *cache.Watcher) []string {
	out := []string{}
	for {
		synctest.Wait()
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return append(out, "CLOSED")
			}
			out = append(out, describe(e))
		default:
			return out
		}
	}
}

func describe(e watch.Event) string {
	switch obj := e.Object.(type) {
	case *metav1.Status:
		return fmt.Sprintf("%s %s", e.Type, obj.Reason)
	case *workv1.ManifestWork:
		if obj.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			return "INITIAL-END"
		}
		if e.Type == watch.Bookmark {
			return "BOOKMARK"
		}
		return fmt.Sprintf("%s %s", e.Type, obj.Name)
	}
	return "?"
}

func expect(t *testing.T, w *cache.Watcher, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, drain(w)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func expectStats(t *testing.T, s *script, want cache.Stats) {
	t.Helper()
	s.cache.Lock()
	defer s.cache.Unlock()
	if diff := cmp.Diff(want, s.cache.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func version(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWatchStartsWithObjects(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "one")
		rv := s.put("b", "two")
		s.put("a", "one")
		all := s.watch(cache.WatchOptions{})
		marked := s.watch(cache.WatchOptions{MarkInitialEnd: true})
		resumed := s.watch(cache.WatchOptions{Resume: true, Since: version(t, rv)})
		one := s.watch(cache.WatchOptions{Filter: cache.Filter{Namespace: "b"}})
		expect(t, all, "ADDED one", "ADDED two")
		expect(t, marked, "ADDED one", "ADDED two", "INITIAL-END")
		expect(t, resumed, "MODIFIED one")
		expect(t, one, "ADDED two")
		s.remove("a", "one")
		for _, w := range []*cache.Watcher{all, marked, resumed} {
			expect(t, w, "DELETED one")
		}
		expect(t, one)
	})
}

// TestInitialEndIsHeld: events before Release precede the marker, and no event is sent twice. Until then
// a bookmark follows every 5 s, because reflectors log a warning after 10 s without an event.
func TestInitialEndIsHeld(t *testing.T) {
	run(t, true, func(s *script) {
		s.put("a", "one")
		w := s.watch(cache.WatchOptions{MarkInitialEnd: true, Bookmarks: true})
		expect(t, w, "ADDED one")
		for range 3 {
			time.Sleep(5 * time.Second)
			expect(t, w, "BOOKMARK")
		}
		s.put("a", "two")
		expect(t, w, "ADDED two")
		s.cache.Lock()
		s.cache.Release()
		s.cache.Unlock()
		expect(t, w, "INITIAL-END")
		time.Sleep(5 * time.Second)
		expect(t, w, "BOOKMARK") // the last one that was due before the marker
		time.Sleep(59 * time.Second)
		expect(t, w)
		time.Sleep(time.Second)
		expect(t, w, "BOOKMARK")
		late := s.watch(cache.WatchOptions{MarkInitialEnd: true})
		expect(t, late, "ADDED one", "ADDED two", "INITIAL-END")
	})
}

func TestWatchSelector(t *testing.T) {
	run(t, false, func(s *script) {
		selector := labels.SelectorFromSet(labels.Set{"x": "1"})
		w := s.watch(cache.WatchOptions{Filter: cache.Filter{Labels: selector}})
		s.put("a", "one")
		expect(t, w)
		s.put("a", "one", "x", "1")
		expect(t, w, "ADDED one")
		s.put("a", "one", "x", "1", "y", "2")
		expect(t, w, "MODIFIED one")
		s.put("a", "one", "y", "2")
		expect(t, w, "DELETED one")
		s.remove("a", "one")
		expect(t, w)
	})
}

func TestWatchTooOldAndTooNew(t *testing.T) {
	run(t, false, func(s *script) {
		rv := version(t, s.put("a", "one"))
		for range 2000 {
			s.put("a", "one")
		}
		old := s.watch(cache.WatchOptions{Resume: true, Since: rv})
		expect(t, old, "ERROR Expired", "CLOSED")
		future := s.watch(cache.WatchOptions{Resume: true, Since: rv + 1_000_000})
		expect(t, future, "ERROR Timeout", "CLOSED")
		expectStats(t, s, cache.Stats{Objects: 1, WatchEnds: cache.WatchEnds{Expired: 1, Future: 1}})
	})
}

func TestWatchEnds(t *testing.T) {
	run(t, false, func(s *script) {
		timed := s.watch(cache.WatchOptions{Timeout: 90 * time.Second, Bookmarks: true})
		plain := s.watch(cache.WatchOptions{})
		stopped := s.watch(cache.WatchOptions{})
		ctx, cancel := context.WithCancel(s.t.Context())
		s.cache.Lock()
		cancelled, err := s.cache.Watch(ctx, cache.WatchOptions{})
		s.cache.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		stopped.Stop()
		expect(t, cancelled, "CLOSED")
		expect(t, stopped, "CLOSED")
		time.Sleep(61 * time.Second)
		expect(t, timed, "BOOKMARK")
		time.Sleep(30 * time.Second)
		expect(t, timed, "BOOKMARK", "CLOSED")
		s.cache.Lock()
		s.cache.Close()
		_, err = s.cache.Watch(s.t.Context(), cache.WatchOptions{})
		s.cache.Unlock()
		expect(t, plain, "CLOSED")
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a watch of a closed cache: %v", err)
		}
	})
}

func TestObjectsAreOrdered(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("b", "one")
		s.put("a", "two")
		s.put("a", "one")
		got := []string{}
		for _, obj := range s.list(cache.Query{}).Objects {
			got = append(got, obj.Namespace+"/"+obj.Name)
		}
		if diff := cmp.Diff([]string{"a/one", "a/two", "b/one"}, got); diff != "" {
			t.Error(diff)
		}
		s.cache.Lock()
		defer s.cache.Unlock()
		if n := s.cache.Stats().Objects; n != 3 {
			t.Errorf("the cache counts %d objects", n)
		}
	})
}
