// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// ObjectCache stores copies of objects and of lists by kind, namespace, and name or selector. Only
// code of kubernetes-dependency-watches that creates a cache needs it: a [Watcher] has a cache with
// [Options].EnableCache. It uses at most [ObjectCacheOptions].MaxBytes of memory: the least
// recently used entries are removed first, a list as a whole. If an entry is not in the cache, the
// methods that return objects return ErrNoCacheEntry. The methods may be called from any goroutine.
type ObjectCache interface { //nolint:interfacebloat // its first implementation has it so
	// Get returns an object, or nil if its absence was cached.
	Get(gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	// List returns the cached objects of a list. A nil selector matches all.
	List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured, error)
	// FromObjectIdentifier returns the cached objects for an identifier.
	FromObjectIdentifier(id ObjectIdentifier) ([]unstructured.Unstructured, error)
	// CacheList, CacheObject and CacheFromObjectIdentifier store copies, without managed fields and
	// kubectl's annotation for the last applied configuration. Nil records that
	// an object does not exist. An entry larger than MaxBytes is not stored, and an earlier entry
	// of the same name is removed.
	CacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector, objects []unstructured.Unstructured)
	CacheObject(gvk schema.GroupVersionKind, namespace string, name string, object *unstructured.Unstructured)
	CacheFromObjectIdentifier(id ObjectIdentifier, objects []unstructured.Unstructured)
	// UncacheList, UncacheObject and UncacheFromObjectIdentifier remove an entry.
	UncacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector)
	UncacheObject(gvk schema.GroupVersionKind, namespace string, name string)
	UncacheFromObjectIdentifier(id ObjectIdentifier)
	// GVKToGVR returns the resource of a kind, and caches it for
	// [ObjectCacheOptions].GVKToGVRCacheTTL. Its errors are those of [DynamicWatcher].GVKToGVR.
	GVKToGVR(gvk schema.GroupVersionKind) (ScopedGVR, error)
	// Clear empties the cache.
	Clear()
}

// NewObjectCache returns an empty cache. It makes no request.
func NewObjectCache(discoveryClient discovery.DiscoveryInterface, options ObjectCacheOptions) ObjectCache {
	options = options.withDefaults()
	k := newKinds(discovery.ToDiscoveryInterfaceWithContext(discoveryClient), nil, options, clock.RealClock{})
	return &objectCache{kinds: k, options: options, entries: map[ObjectIdentifier]*list.Element{}, recent: list.New()}
}

type objectCache struct {
	kinds   *kinds
	options ObjectCacheOptions

	mu      sync.Mutex
	entries map[ObjectIdentifier]*list.Element
	recent  *list.List // of *cacheEntry, the most recently used one first
	bytes   int64      // of all entries
}

// cacheEntry is an object or a list. It does not change.
type cacheEntry struct {
	id      ObjectIdentifier
	objects []unstructured.Unstructured
	bytes   int64
}

func (c *objectCache) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return first(c.FromObjectIdentifier(identify(gvk, namespace, name, nil)))
}

func (c *objectCache) List(
	gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	return c.FromObjectIdentifier(identify(gvk, namespace, "", selector))
}

func (c *objectCache) FromObjectIdentifier(id ObjectIdentifier) ([]unstructured.Unstructured, error) {
	entry := c.use(id)
	if entry == nil {
		return nil, fmt.Errorf("%w for %s", ErrNoCacheEntry, id)
	}
	return c.options.copies(entry.objects), nil
}

// use returns an entry and makes it the most recently used, or returns nil.
func (c *objectCache) use(id ObjectIdentifier) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[id]
	if element == nil {
		return nil
	}
	c.recent.MoveToFront(element)
	return element.Value.(*cacheEntry)
}

func (c *objectCache) CacheList(
	gvk schema.GroupVersionKind, namespace string, selector labels.Selector, objects []unstructured.Unstructured,
) {
	c.CacheFromObjectIdentifier(identify(gvk, namespace, "", selector), objects)
}

func (c *objectCache) CacheObject(
	gvk schema.GroupVersionKind, namespace, name string, object *unstructured.Unstructured,
) {
	var objects []unstructured.Unstructured
	if object != nil {
		objects = append(objects, *object)
	}
	c.CacheFromObjectIdentifier(identify(gvk, namespace, name, nil), objects)
}

func (c *objectCache) CacheFromObjectIdentifier(id ObjectIdentifier, objects []unstructured.Unstructured) {
	objects = ObjectCacheOptions{}.copies(objects)
	for i := range objects {
		trim(&objects[i])
	}
	entry := &cacheEntry{id: id, objects: objects, bytes: entrySize(id, objects)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.entries[id]) // also if the new entry is too large: the old entry is outdated
	if c.options.MaxBytes >= 0 && entry.bytes > c.options.MaxBytes {
		return
	}
	c.entries[id] = c.recent.PushFront(entry)
	for c.bytes += entry.bytes; c.options.MaxBytes >= 0 && c.bytes > c.options.MaxBytes; {
		c.removeLocked(c.recent.Back())
	}
}

func (c *objectCache) removeLocked(element *list.Element) {
	if element != nil {
		entry := c.recent.Remove(element).(*cacheEntry)
		c.bytes -= entry.bytes
		delete(c.entries, entry.id)
	}
}

func (c *objectCache) UncacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) {
	c.UncacheFromObjectIdentifier(identify(gvk, namespace, "", selector))
}

func (c *objectCache) UncacheObject(gvk schema.GroupVersionKind, namespace, name string) {
	c.UncacheFromObjectIdentifier(identify(gvk, namespace, name, nil))
}

func (c *objectCache) UncacheFromObjectIdentifier(id ObjectIdentifier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.entries[id])
}

func (c *objectCache) GVKToGVR(gvk schema.GroupVersionKind) (ScopedGVR, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	return c.kinds.resolve(ctx, gvk)
}

func (c *objectCache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.recent.Init()
	c.bytes = 0
	c.kinds.forgetAll()
}

// copies returns objects in the form that readers of a cache receive.
func (o ObjectCacheOptions) copies(objects []unstructured.Unstructured) []unstructured.Unstructured {
	if o.UnsafeDisableDeepCopy {
		return objects
	}
	all := make([]unstructured.Unstructured, 0, len(objects))
	for i := range objects {
		all = append(all, *objects[i].DeepCopy())
	}
	return all
}

// first returns the only object of a query by name, or nil.
func first(objects []unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	return &objects[0], nil
}

// trim removes managed fields and the last applied configuration, which are long.
func trim(u *unstructured.Unstructured) *unstructured.Unstructured {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	u.SetManagedFields(nil)
	annotations := u.GetAnnotations()
	if _, ok := annotations[lastApplied]; ok {
		delete(annotations, lastApplied)
		u.SetAnnotations(annotations)
	}
	return u
}
