// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// TestListAt: a list at a version in the log returns the objects of that version, regardless of
// later writes.
func TestListAt(t *testing.T) {
	run(t, false, func(s *script) {
		show := func(objects []*workv1.ManifestWork) []string {
			out := []string{}
			for _, obj := range objects {
				out = append(out, obj.Namespace+"/"+obj.Name+"@"+obj.ResourceVersion)
			}
			return out
		}
		random := rand.New(rand.NewPCG(1, 2))
		filters := []*cache.Filter{{}, {Namespace: "a"}, {Namespace: "c"}}
		type past struct {
			version uint64
			objects [][]string
		}
		var pasts []past
		for range 3000 {
			namespace, name := string(rune('a'+random.IntN(2))), "w"+strconv.Itoa(random.IntN(5))
			if r := s.records[namespace+"/"+name]; r != nil && r.Object != nil && random.IntN(3) == 0 {
				s.remove(namespace, name)
			} else {
				s.put(namespace, name)
			}
			var now past
			for _, f := range filters {
				page := s.list(cache.Query{Filter: *f})
				now.version = page.Version
				now.objects = append(now.objects, show(page.Objects))
			}
			pasts = append(pasts, now)
		}
		for i, then := range pasts {
			for j, f := range filters {
				page, err := s.cache.List(&cache.Query{Filter: *f, At: then.version})
				if i < len(pasts)-1-1024 {
					if !apierrors.IsResourceExpired(err) {
						t.Fatalf("write %d is too old to be known: %v", i, err)
					}
				} else if diff := cmp.Diff(then.objects[j], show(page.Objects)); diff != "" || err != nil {
					t.Fatalf("write %d (-then +now): %v\n%s", i, err, diff)
				}
			}
		}
		_, err := s.cache.List(&cache.Query{At: pasts[len(pasts)-1].version + 1})
		if !apierrors.IsTimeout(err) {
			t.Errorf("a version from the future: %v", err)
		}
	})
}

// TestPages: the pages of a list are consistent and show the state at its start. Later writes, and
// the age of that state in the log, do not matter.
func TestPages(t *testing.T) {
	run(t, false, func(s *script) {
		for i := range 100 {
			s.put(string(rune('a'+i%3)), fmt.Sprintf("w%02d", i), "even", fmt.Sprint(i%2 == 0))
		}
		even := labels.SelectorFromSet(labels.Set{"even": "true"})
		for _, f := range []cache.Filter{{}, {Namespace: "b"}, {Namespace: "none"}, {Labels: even},
			{Namespace: "a", Labels: even}} {
			whole := s.list(cache.Query{Filter: f})
			var got []*workv1.ManifestWork
			q := cache.Query{Filter: f, Limit: 7}
			for {
				page := s.list(q)
				got = append(got, page.Objects...)
				if f.Labels == nil && page.Left != len(whole.Objects)-len(got) {
					t.Errorf("%+v: %d objects are left, want %d", f, page.Left, len(whole.Objects)-len(got))
				}
				if !page.More {
					break
				}
				last := page.Objects[len(page.Objects)-1]
				q.At, q.AfterNamespace, q.AfterName = page.Version, last.Namespace, last.Name
				for i := range 300 {
					s.put("b", fmt.Sprintf("new%02d", i%20), "even", "true")
				}
				s.remove("b", fmt.Sprintf("new%02d", len(got)%20))
			}
			if !slices.Equal(whole.Objects, got) {
				t.Errorf("%+v: pages have %d objects, which are others than the %d of the list that they began with",
					f, len(got), len(whole.Objects))
			}
			for name := range s.records {
				if strings.HasPrefix(name, "b/new") && s.records[name].Object != nil {
					s.remove("b", strings.TrimPrefix(name, "b/"))
				}
			}
		}
	})
}

// TestPagesEnd: a list that pauses for long returns an error after its state is forgotten.
func TestPagesEnd(t *testing.T) {
	run(t, false, func(s *script) {
		for i := range 10 {
			s.put("a", fmt.Sprintf("w%d", i))
		}
		page := s.list(cache.Query{Limit: 5})
		next := cache.Query{Limit: 5, At: page.Version, AfterNamespace: "a", AfterName: "w4"}
		time.Sleep(4 * time.Minute)
		for range 2000 {
			s.put("a", "w1")
		}
		if got := s.list(next); len(got.Objects) != 5 {
			t.Errorf("%d objects after a pause", len(got.Objects))
		}
		time.Sleep(6 * time.Minute)
		s.put("a", "w1")
		if _, err := s.cache.List(&next); !apierrors.IsResourceExpired(err) {
			t.Errorf("after a long pause: %v", err)
		}
	})
}

// TestPagesOfManyLists: eight paged lists can continue at the same time, regardless of writes. The
// next list replaces the list with the oldest last page.
func TestPagesOfManyLists(t *testing.T) {
	run(t, false, func(s *script) {
		begin := func() cache.Query {
			s.put("a", "w0")
			page := s.list(cache.Query{Limit: 5})
			return cache.Query{Limit: 5, At: page.Version, AfterNamespace: "a", AfterName: "w4"}
		}
		for i := range 10 {
			s.put("a", fmt.Sprintf("w%d", i))
		}
		var lists []cache.Query
		for range 8 {
			time.Sleep(time.Second)
			lists = append(lists, begin())
		}
		for range 3000 {
			s.put("a", "w1")
		}
		for i := range lists {
			time.Sleep(time.Second)
			if got := s.list(lists[i]); len(got.Objects) != 5 {
				t.Errorf("list %d: %d objects", i, len(got.Objects))
			}
		}
		time.Sleep(time.Second)
		s.list(lists[0])
		begin()
		for i := range lists {
			if _, err := s.cache.List(&lists[i]); apierrors.IsResourceExpired(err) != (i == 1) {
				t.Errorf("list %d next to eight others: %v", i, err)
			}
		}
	})
}

// list returns the result of a query that must not fail.
func (s *script) list(q cache.Query) cache.Page {
	s.t.Helper()
	page, err := s.cache.List(&q)
	if err != nil {
		s.t.Fatal(err)
	}
	return page
}
