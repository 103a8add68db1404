// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

func newTestCache(maxBytes int64) *objectCache {
	d := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	return NewObjectCache(d, ObjectCacheOptions{MaxBytes: maxBytes}).(*objectCache)
}

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// configMap returns a ConfigMap with a value of the given size.
func configMap(name string, size int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": strings.Repeat("x", size)}}}
	u.SetGroupVersionKind(configMaps)
	u.SetName(name)
	return u
}

// hasEntry reports whether the cache has an object. It does not read the object, so the order of
// use stays the same.
func (c *objectCache) hasEntry(name string) bool {
	_, ok := c.entries[identify(configMaps, "", name, nil)]
	return ok
}

func TestObjectCacheRemovesLeastRecentlyUsed(t *testing.T) {
	one := entrySize(identify(configMaps, "", "a", nil), []unstructured.Unstructured{*configMap("a", 1000)})
	c := newTestCache(3 * one)
	for _, name := range []string{"a", "b", "c"} {
		c.CacheObject(configMaps, "", name, configMap(name, 1000))
	}
	if _, err := c.Get(configMaps, "", "a"); err != nil {
		t.Fatal(err)
	}
	c.CacheObject(configMaps, "", "d", configMap("d", 1000))
	if _, err := c.Get(configMaps, "", "b"); !errors.Is(err, ErrNoCacheEntry) {
		t.Errorf("least recently used object: %v, not ErrNoCacheEntry", err)
	}
	for _, name := range []string{"a", "c", "d"} {
		if _, err := c.Get(configMaps, "", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestObjectCacheRemovesListAsAWhole(t *testing.T) {
	items := []unstructured.Unstructured{*configMap("a", 1000), *configMap("b", 1000)}
	c := newTestCache(entrySize(identify(configMaps, "", "", nil), items))
	c.CacheList(configMaps, "", nil, items)
	if got, err := c.List(configMaps, "", nil); err != nil || len(got) != 2 {
		t.Fatalf("%d objects, %v", len(got), err)
	}
	c.CacheObject(configMaps, "", "c", configMap("c", 10))
	if got, err := c.List(configMaps, "", nil); !errors.Is(err, ErrNoCacheEntry) {
		t.Errorf("%d objects, %v, not ErrNoCacheEntry", len(got), err)
	}
}

func TestObjectCacheDoesNotStoreEntryLargerThanMaxBytes(t *testing.T) {
	c := newTestCache(10_000)
	c.CacheObject(configMaps, "", "a", configMap("a", 10))
	c.CacheObject(configMaps, "", "b", configMap("b", 10))
	c.CacheObject(configMaps, "", "a", configMap("a", 20_000))
	if got, err := c.Get(configMaps, "", "a"); !errors.Is(err, ErrNoCacheEntry) {
		t.Errorf("got %v, %v, not ErrNoCacheEntry: the earlier object is out of date", got != nil, err)
	}
	if !c.hasEntry("b") {
		t.Error("the object that is too large took another's place")
	}
}

func TestObjectCacheWithoutLimit(t *testing.T) {
	if c := newTestCache(0); c.options.MaxBytes != 256<<20 {
		t.Errorf("default %d", c.options.MaxBytes)
	}
	c := newTestCache(-1)
	c.CacheObject(configMaps, "", "a", configMap("a", 10))
	if !c.hasEntry("a") {
		t.Error("not stored")
	}
}

// TestObjectCacheStaysWithinMaxBytes makes random calls and compares the cache with the expected
// entries.
func TestObjectCacheStaysWithinMaxBytes(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must repeat
		limit := int64(5_000 + r.IntN(50_000))
		c := newTestCache(limit)
		var want []string // the most recently used entry is last
		sizes := map[string]int64{}
		forget := func(name string) {
			want = slices.DeleteFunc(want, func(n string) bool { return n == name })
			delete(sizes, name)
		}
		for range 300 {
			name := fmt.Sprint(r.IntN(40))
			switch r.IntN(10) {
			case 0:
				c.UncacheObject(configMaps, "", name)
				forget(name)
			case 1, 2, 3, 4:
				_, has := sizes[name]
				u, err := c.Get(configMaps, "", name)
				switch {
				case has && (err != nil || u.GetName() != name):
					t.Fatalf("seed %d: get %s: %v, %v", seed, name, u, err)
				case !has && !errors.Is(err, ErrNoCacheEntry):
					t.Fatalf("seed %d: get %s: %v, not ErrNoCacheEntry", seed, name, err)
				case has:
					want = append(slices.DeleteFunc(want, func(n string) bool { return n == name }), name)
				}
			default:
				u := configMap(name, r.IntN(4_000))
				c.CacheObject(configMaps, "", name, u)
				forget(name)
				want, sizes[name] = append(want, name),
					entrySize(identify(configMaps, "", name, nil), []unstructured.Unstructured{*u})
			}
			var sum int64
			for _, size := range sizes {
				sum += size
			}
			for sum > limit {
				sum -= sizes[want[0]]
				forget(want[0])
			}
			if c.bytes != sum || c.recent.Len() != len(want) || len(c.entries) != len(want) {
				t.Fatalf("seed %d: %d bytes in %d entries, not %d in %d", seed, c.bytes, c.recent.Len(), sum, len(want))
			}
			for name := range maps.Keys(sizes) {
				if !c.hasEntry(name) {
					t.Fatalf("seed %d: no %s", seed, name)
				}
			}
		}
	}
}

// TestObjectCacheServesConcurrentCalls makes concurrent calls for the race detector.
func TestObjectCacheServesConcurrentCalls(t *testing.T) {
	c := newTestCache(20_000)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1)) //nolint:gosec // it must repeat
			for range 300 {
				name := fmt.Sprint(r.IntN(20))
				switch r.IntN(20) {
				case 0:
					c.Clear()
				case 1, 2:
					c.UncacheObject(configMaps, "", name)
				case 3, 4, 5, 6, 7, 8, 9:
					c.CacheObject(configMaps, "", name, configMap(name, r.IntN(3_000)))
				default:
					if u, err := c.Get(configMaps, "", name); err == nil && u.GetName() != name {
						t.Errorf("got %s, not %s", u.GetName(), name)
					}
				}
			}
		})
	}
	group.Wait()
	var sum int64
	for e := c.recent.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*cacheEntry).bytes
	}
	if sum != c.bytes || sum > c.options.MaxBytes {
		t.Errorf("%d bytes, %d by the sum, at most %d", c.bytes, sum, c.options.MaxBytes)
	}
}

// TestObjectCacheSizeIsCloseToHeap compares the estimated size with the growth of the heap.
func TestObjectCacheSizeIsCloseToHeap(t *testing.T) {
	wide := map[string]any{}
	for i := range 100 {
		wide[fmt.Sprintf("key-%03d", i)] = fmt.Sprint("value ", i)
	}
	documents := map[string]any{
		"a large value": map[string]any{"data": map[string]any{"key": strings.Repeat("x", 10_000)}},
		"small values": map[string]any{"metadata": map[string]any{"name": "n", "namespace": "ns", "uid": "123"},
			"data": map[string]any{"a": "b"}},
		"a pod":          podLike(),
		"many keys":      map[string]any{"data": wide},
		"many numbers":   map[string]any{"spec": map[string]any{"numbers": slices.Repeat([]any{1000, 2.5}, 200)}},
		"only its entry": nil,
	}
	heap := func() int64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far below the limit
	}
	for name, document := range documents {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "content": document})
			if err != nil {
				t.Fatal(err)
			}
			c := newTestCache(-1)
			before := heap()
			for i := range 2000 {
				var u *unstructured.Unstructured
				if document != nil {
					u = &unstructured.Unstructured{}
					if err := u.UnmarshalJSON(data); err != nil {
						t.Fatal(err)
					}
				}
				c.CacheObject(configMaps, "namespace", fmt.Sprint("name-", i), u)
			}
			used := heap() - before
			t.Logf("%d bytes an entry, estimated %d", used/2000, c.bytes/2000)
			if c.bytes < used*3/4 || c.bytes > used*5/4 {
				t.Errorf("the estimate is %d %% of the heap", c.bytes*100/used)
			}
			runtime.KeepAlive(c)
		})
	}
}

func podLike() map[string]any {
	container := map[string]any{
		"name": "main", "image": "registry.example.com/team/app:v1.2.3", "args": []any{"--listen=:8080", "--verbose"},
		"ports":     []any{map[string]any{"containerPort": 8080, "protocol": "TCP"}},
		"resources": map[string]any{"limits": map[string]any{"cpu": "500m", "memory": "128Mi"}},
		"env":       []any{map[string]any{"name": "A", "value": "b"}, map[string]any{"name": "C", "value": "d"}},
	}
	return map[string]any{
		"metadata": map[string]any{
			"name": "pod-7f9c6d", "namespace": "default", "uid": "8f8a3f5c-2d0c-4c58-9b57-2a6f7c5d1f10",
			"resourceVersion": "123456",
			"labels":          map[string]any{"app.kubernetes.io/name": "app", "pod-template-hash": "7f9c6d"},
		},
		"spec": map[string]any{"containers": []any{container, container}, "nodeName": "node-1",
			"terminationGracePeriodSeconds": 30},
		"status": map[string]any{"phase": "Running", "podIP": "10.0.0.1",
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
}
