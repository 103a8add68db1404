// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// selectors are field selectors that select names and namespaces in all ways.
var selectors = []string{
	"", "metadata.name=w1", "metadata.name==w1", "metadata.namespace=a", "metadata.name=w1,metadata.namespace=b",
	"metadata.name!=w1", "metadata.namespace!=a,metadata.name=w2", "metadata.name=w1,metadata.name=w2",
	"metadata.name=none",
	"metadata.namespace=a,metadata.namespace=b", "metadata.name=", "metadata.namespace=",
	"metadata.namespace=none,metadata.name=w1",
	"metadata.name=w1,metadata.name=w1",
}

// selections calls do with filters, and with a function that reports whether an object must be
// selected.
func selections(t *testing.T, do func(name string, f cache.Filter, selects func(*workv1.ManifestWork) bool)) {
	t.Helper()
	even := labels.SelectorFromSet(labels.Set{"even": "true"})
	for _, text := range selectors {
		selector := fields.ParseSelectorOrDie(text)
		for _, namespace := range []string{"", "a", "none"} {
			for _, labeled := range []labels.Selector{nil, even} {
				f := cache.Filter{Namespace: namespace, Labels: labeled}
				f.Select(selector)
				do(fmt.Sprintf("%q in %q with labels %v", text, namespace, labeled), f, func(obj *workv1.ManifestWork) bool {
					return (namespace == "" || namespace == obj.Namespace) &&
						(labeled == nil || labeled.Matches(labels.Set(obj.Labels))) &&
						selector.Matches(fields.Set{"metadata.name": obj.Name, "metadata.namespace": obj.Namespace})
				})
			}
		}
	}
}

// TestSelectFields: lists, pages and watches by name and namespace return the objects that their
// selectors match. This holds for lookups and for searches, at the current and at an earlier
// version.
func TestSelectFields(t *testing.T) {
	run(t, false, func(s *script) {
		write := func(i int) {
			for _, namespace := range []string{"a", "b", "c"} {
				for j := range 4 {
					s.put(namespace, fmt.Sprint("w", j), "even", fmt.Sprint((i+j)%2 == 0))
				}
			}
		}
		write(0)
		selections(t, func(name string, f cache.Filter, selects func(*workv1.ManifestWork) bool) {
			all := s.list(cache.Query{})
			write(1)
			s.put("a", "w5", "even", "true")
			now := s.list(cache.Query{})
			for _, at := range []cache.Page{all, now} {
				want := slices.DeleteFunc(slices.Clone(at.Objects), func(obj *workv1.ManifestWork) bool { return !selects(obj) })
				got := s.list(cache.Query{Filter: f, At: at.Version})
				if !slices.Equal(got.Objects, want) {
					t.Errorf("%s: a list of %d objects, want %d", name, len(got.Objects), len(want))
				}
				if got := s.pages(cache.Query{Filter: f, At: at.Version, Limit: 2}); !slices.Equal(got, want) {
					t.Errorf("%s: pages of %d objects, want %d", name, len(got), len(want))
				}
			}
			begin, resumed := s.watch(cache.WatchOptions{Filter: f}),
				s.watch(cache.WatchOptions{Filter: f, Resume: true, Since: all.Version})
			first := drain(begin)
			drain(resumed)
			s.remove("a", "w5")
			s.put("a", "w5")
			s.remove("a", "w5")
			write(0)
			news := drain(begin)
			if diff := cmp.Diff(news, drain(resumed)); diff != "" {
				t.Errorf("%s: two watches differ:\n%s", name, diff)
			}
			if f.Labels == nil {
				count := 0
				for _, obj := range now.Objects {
					if selects(obj) {
						count++
					}
				}
				want := count
				if selects(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "w5"}}) {
					want += 2 // one object less, and its three events
				}
				if len(first) != count || len(news) != want {
					t.Errorf("%s: a watch begins with %d objects and gets %d events, want %d and %d", name, len(first), len(news),
						count, want)
				}
			}
			begin.Stop()
			resumed.Stop()
			drain(begin)
			drain(resumed)
		})
		expectStats(t, s, cache.Stats{Objects: 12})
	})
}

// pages returns all objects of a query, page by page.
func (s *script) pages(q cache.Query) []*workv1.ManifestWork {
	s.t.Helper()
	var out []*workv1.ManifestWork
	for {
		page := s.list(q)
		out = append(out, page.Objects...)
		if !page.More {
			return out
		}
		last := page.Objects[len(page.Objects)-1]
		q.At, q.AfterNamespace, q.AfterName = page.Version, last.Namespace, last.Name
	}
}

// BenchmarkPutWithNamedWatchers measures a write while 10,000 watches are open, each for a
// different name.
func BenchmarkPutWithNamedWatchers(b *testing.B) {
	s := benchStore(b, 10_000)
	for i := range 10_000 {
		s.watch(b, cache.Filter{Namespace: "a", Name: fmt.Sprint("work", i)})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.put(i * 7919 % 10_000)
	}
}

// BenchmarkListByName measures a list of one name in a cache of 100,000 works.
func BenchmarkListByName(b *testing.B) {
	s := benchStore(b, 100_000)
	for name, q := range map[string]cache.Query{
		"namespace":  {Filter: cache.Filter{Namespace: "a"}},
		"everywhere": {},
		"page":       {Filter: cache.Filter{Namespace: "a"}, Limit: 500},
	} {
		q.Select(fields.OneTermEqualSelector(cache.FieldName, "work77"))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := s.cache.List(&q)
				if err != nil || len(page.Objects) != 1 {
					b.Fatalf("%d objects: %v", len(page.Objects), err)
				}
			}
		})
	}
}
