// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

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

	"github.com/spokewire/sdk-go/cloudevents/work/internal/store"
)

type record struct{ store.Entry }

// script drives a store and watches of it inside a synctest bubble.
type script struct {
	t       *testing.T
	store   *store.Store[*record]
	records map[string]*record
}

// limits are those of the options' defaults.
var limits = store.Limits{Bytes: 64 << 20, Age: 5 * time.Minute}

func run(t *testing.T, hold bool, f func(*script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&script{t: t, store: store.New[*record](clock.RealClock{}, hold, limits), records: map[string]*record{}})
	})
}

// put writes an object; its labels are pairs of key and value.
func (s *script) put(namespace, name string, kv ...string) string {
	s.store.Lock()
	defer s.store.Unlock()
	r := s.records[namespace+"/"+name]
	if r == nil {
		r = &record{}
		s.records[namespace+"/"+name] = r
	}
	obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(kv); i += 2 {
		obj.Labels[kv[i]] = kv[i+1]
	}
	s.store.Put(r, obj)
	return obj.ResourceVersion
}

func (s *script) remove(namespace, name string) {
	s.store.Lock()
	defer s.store.Unlock()
	s.store.Remove(s.records[namespace+"/"+name], nil)
}

func (s *script) watch(o store.WatchOptions) *store.Watcher {
	s.t.Helper()
	s.store.Lock()
	defer s.store.Unlock()
	w, err := s.store.Watch(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	return w
}

// drain reads all events that are there, as "TYPE name".
func drain(w *store.Watcher) []string {
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

func expect(t *testing.T, w *store.Watcher, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, drain(w)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func expectStats(t *testing.T, s *script, want store.Stats) {
	t.Helper()
	s.store.Lock()
	defer s.store.Unlock()
	if diff := cmp.Diff(want, s.store.Stats()); diff != "" {
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

func TestWatchBegins(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "one")
		rv := s.put("b", "two")
		s.put("a", "one")
		all := s.watch(store.WatchOptions{})
		marked := s.watch(store.WatchOptions{MarkInitialEnd: true})
		resumed := s.watch(store.WatchOptions{Resume: true, Since: version(t, rv)})
		one := s.watch(store.WatchOptions{Filter: store.Filter{Namespace: "b"}})
		expect(t, all, "ADDED one", "ADDED two")
		expect(t, marked, "ADDED one", "ADDED two", "INITIAL-END")
		expect(t, resumed, "MODIFIED one")
		expect(t, one, "ADDED two")
		s.remove("a", "one")
		for _, w := range []*store.Watcher{all, marked, resumed} {
			expect(t, w, "DELETED one")
		}
		expect(t, one)
	})
}

// TestInitialEndIsHeld: events that come before Release precede the marker, and none is sent twice.
func TestInitialEndIsHeld(t *testing.T) {
	run(t, true, func(s *script) {
		s.put("a", "one")
		w := s.watch(store.WatchOptions{MarkInitialEnd: true, Bookmarks: true})
		expect(t, w, "ADDED one")
		time.Sleep(61 * time.Second)
		expect(t, w) // a bookmark here would say that the initial events are complete up to it
		s.put("a", "two")
		expect(t, w, "ADDED two")
		s.store.Lock()
		s.store.Release()
		s.store.Unlock()
		expect(t, w, "INITIAL-END")
		late := s.watch(store.WatchOptions{MarkInitialEnd: true})
		expect(t, late, "ADDED one", "ADDED two", "INITIAL-END")
	})
}

func TestWatchSelector(t *testing.T) {
	run(t, false, func(s *script) {
		selector := labels.SelectorFromSet(labels.Set{"x": "1"})
		w := s.watch(store.WatchOptions{Filter: store.Filter{Labels: selector}})
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
		old := s.watch(store.WatchOptions{Resume: true, Since: rv})
		expect(t, old, "ERROR Expired", "CLOSED")
		future := s.watch(store.WatchOptions{Resume: true, Since: rv + 1_000_000})
		expect(t, future, "ERROR Timeout", "CLOSED")
		expectStats(t, s, store.Stats{Objects: 1, WatchEnds: store.WatchEnds{Expired: 1, Future: 1}})
	})
}

func TestWatchEnds(t *testing.T) {
	run(t, false, func(s *script) {
		timed := s.watch(store.WatchOptions{Timeout: 90 * time.Second, Bookmarks: true})
		plain := s.watch(store.WatchOptions{})
		stopped := s.watch(store.WatchOptions{})
		ctx, cancel := context.WithCancel(s.t.Context())
		s.store.Lock()
		cancelled, err := s.store.Watch(ctx, store.WatchOptions{})
		s.store.Unlock()
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
		s.store.Lock()
		s.store.Close()
		_, err = s.store.Watch(s.t.Context(), store.WatchOptions{})
		s.store.Unlock()
		expect(t, plain, "CLOSED")
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a watch of a closed store: %v", err)
		}
	})
}

func TestObjectsAreOrdered(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("b", "one")
		s.put("a", "two")
		s.put("a", "one")
		got := []string{}
		for _, obj := range s.list(store.Query{}).Objects {
			got = append(got, obj.Namespace+"/"+obj.Name)
		}
		if diff := cmp.Diff([]string{"a/one", "a/two", "b/one"}, got); diff != "" {
			t.Error(diff)
		}
		s.store.Lock()
		defer s.store.Unlock()
		if s.store.Len() != 3 {
			t.Errorf("Len is %d", s.store.Len())
		}
	})
}
