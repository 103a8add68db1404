// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// ObjectCache keeps what its user puts into it, until that is taken out: objects, and lists by namespace and selector. It is
// for code of kubernetes-dependency-watches that has a cache of its own; the cache of a [Watcher] is [Options].EnableCache.
// Its methods may be called from any goroutine. The methods that return objects return ErrNoCacheEntry for what was not put.
type ObjectCache interface { //nolint:interfacebloat // its first implementation has it so
	// Get returns an object, or nil where its absence was cached.
	Get(gvk schema.GroupVersionKind, namespace string, name string) (*unstructured.Unstructured, error)
	// List returns what was cached for a list. A nil selector matches all.
	List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured, error)
	// FromObjectIdentifier returns what was cached for an identifier.
	FromObjectIdentifier(id ObjectIdentifier) ([]unstructured.Unstructured, error)
	// CacheList, CacheObject and CacheFromObjectIdentifier keep copies, without managed fields and without kubectl's annotation
	// of the last applied configuration. A nil object is absent.
	CacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector, objects []unstructured.Unstructured)
	CacheObject(gvk schema.GroupVersionKind, namespace string, name string, object *unstructured.Unstructured)
	CacheFromObjectIdentifier(id ObjectIdentifier, objects []unstructured.Unstructured)
	// UncacheList, UncacheObject and UncacheFromObjectIdentifier take out what was put in by the methods above.
	UncacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector)
	UncacheObject(gvk schema.GroupVersionKind, namespace string, name string)
	UncacheFromObjectIdentifier(id ObjectIdentifier)
	// GVKToGVR returns the resource of a kind, and remembers it for the time that the options say. Its errors are those of
	// the method of [DynamicWatcher].
	GVKToGVR(gvk schema.GroupVersionKind) (ScopedGVR, error)
	// Clear empties the cache.
	Clear()
}

// NewObjectCache returns a cache that is empty. It makes no request.
func NewObjectCache(discoveryClient discovery.DiscoveryInterface, options ObjectCacheOptions) ObjectCache {
	options = options.withDefaults()
	k := newKinds(discovery.ToDiscoveryInterfaceWithContext(discoveryClient), nil, options, clock.RealClock{})
	return &objectCache{kinds: k, options: options, entries: map[ObjectIdentifier][]unstructured.Unstructured{}}
}

type objectCache struct {
	kinds   *kinds
	options ObjectCacheOptions

	mu      sync.Mutex
	entries map[ObjectIdentifier][]unstructured.Unstructured
}

func (c *objectCache) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	objects, err := c.FromObjectIdentifier(identify(gvk, namespace, name, nil))
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	return &objects[0], nil
}

func (c *objectCache) List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]unstructured.Unstructured, error) {
	return c.FromObjectIdentifier(identify(gvk, namespace, "", selector))
}

func (c *objectCache) FromObjectIdentifier(id ObjectIdentifier) ([]unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects, ok := c.entries[id]
	if !ok {
		return nil, fmt.Errorf("%w for %s", ErrNoCacheEntry, id)
	}
	return c.options.copies(objects), nil
}

func (c *objectCache) CacheList(gvk schema.GroupVersionKind, namespace string, selector labels.Selector, objects []unstructured.Unstructured) {
	c.CacheFromObjectIdentifier(identify(gvk, namespace, "", selector), objects)
}

func (c *objectCache) CacheObject(gvk schema.GroupVersionKind, namespace, name string, object *unstructured.Unstructured) {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[id] = objects
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
	delete(c.entries, id)
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
	c.kinds.forgetAll()
}

// copies returns objects as readers of a cache get them.
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
