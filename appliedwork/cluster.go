// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/appliedwork/internal/access"
	"github.com/spokewire/sdk-go/appliedwork/internal/discovery"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// listFrom is the number of objects of a kind in a namespace from which a list replaces gets.
	listFrom = 50
	// listFactor limits the unrelated objects in a list, as a multiple of the requested ones.
	listFactor = 2
	// maxOthers is the number of unrelated objects in memory at a time: each may have 1.5 MiB.
	maxOthers = 10
	pageSize  = 500
	// blindPage is the size of a page when it is unknown how many unrelated objects it has.
	blindPage = 50
)

// cluster is the access to the API server that Tracker, Applier, Pruner and Collector share.
//
// Order of mutexes: pruneRun.contentMu is locked before the mutex of discovery.Cache, and during its
// requests. No other mutex of this package is locked together with another, or during a request.
type cluster struct {
	opts    Options
	kinds   *discovery.Cache
	intents *intents
	access  *access.Reviews
}

// resource returns the client for the objects of a kind. A cluster-scoped kind has no namespace.
func (c *cluster) resource(m discovery.Mapping, namespace string) dynamic.ResourceInterface {
	if m.Namespaced {
		return c.opts.Client.Resource(m.Resource).Namespace(namespace)
	}
	return c.opts.Client.Resource(m.Resource)
}

// resolveExactly returns the mapping of a kind whose version must be served.
func (c *cluster) resolveExactly(ctx context.Context, gvk schema.GroupVersionKind) (discovery.Mapping, error) {
	m, err := c.kinds.Resolve(ctx, gvk.GroupKind(), gvk.Version)
	if err == nil && m.Resource.Version != gvk.Version {
		err = &TypeNotServedError{Kind: gvk.GroupKind(), Version: gvk.Version, Served: m.Resource.Version}
	}
	return m, err
}

// isProtected reports whether Options.Protected has an object, which may have a namespace there
// even if it is cluster-scoped.
func (c *cluster) isProtected(key Key) bool {
	return slices.ContainsFunc(c.opts.Protected, func(p Key) bool {
		if key.Namespace == "" {
			p.Namespace = ""
		}
		return p == key
	})
}

func (c *cluster) resolve(ctx context.Context, id v1alpha1.ResourceIdentifier) (discovery.Mapping, error) {
	if id.Kind == "" {
		return c.kinds.ResolveResource(ctx, schema.GroupResource{Group: id.Group, Resource: id.Resource}, id.Version)
	}
	return c.kinds.Resolve(ctx, schema.GroupKind{Group: id.Group, Kind: id.Kind}, id.Version)
}

// keyOf returns the key of an object as the API server has it. An entry of another implementation
// may lack the kind, or have a namespace for a cluster-scoped object.
func (c *cluster) keyOf(ctx context.Context, id v1alpha1.ResourceIdentifier) Key {
	key := KeyOf(id)
	if key.Kind != "" && key.Namespace == "" {
		return key
	}
	if m, err := c.resolve(ctx, id); err == nil {
		return servedKey(m, id)
	}
	return key
}

// servedKey returns the key of an object of a kind, as the API server has it.
func servedKey(m discovery.Mapping, id v1alpha1.ResourceIdentifier) Key {
	key := KeyOf(id)
	key.Kind = cmp.Or(key.Kind, m.Kind)
	if !m.Namespaced {
		key.Namespace = ""
	}
	return key
}

// patchMetadata changes the metadata of the object that was read, and no other. A merge patch
// replaces whole lists.
func patchMetadata(
	ctx context.Context, client dynamic.ResourceInterface, live *unstructured.Unstructured, metadata map[string]any,
	manager string, dryRun ...string,
) (*unstructured.Unstructured, error) {
	metadata["uid"], metadata["resourceVersion"] = live.GetUID(), live.GetResourceVersion()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: manager, DryRun: dryRun}
	patched, err := client.Patch(ctx, live.GetName(), types.MergePatchType, body, options)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) && !IsTypeNotServed(err) {
		return nil, errMoved
	}
	return patched, err
}

// target is an object to read.
type target struct {
	mapping         discovery.Mapping
	namespace, name string
}

// found is the result of a read: the object, or nil if it does not exist.
type found struct {
	obj *unstructured.Unstructured
	err error
}

func (c *cluster) get(ctx context.Context, t target) found {
	obj, err := c.resource(t.mapping, t.namespace).Get(ctx, t.name, metav1.GetOptions{})
	switch {
	case err == nil:
		return found{obj: obj}
	case IsTypeNotServed(err):
		c.kinds.Forget(t.mapping.Resource.Group)
		return found{err: &TypeNotServedError{Kind: t.mapping.GroupKind(), Err: err}}
	case apierrors.IsNotFound(err):
		return found{}
	}
	return found{err: err}
}

// read returns the current objects in the order of targets.
func (c *cluster) read(ctx context.Context, targets []target, concurrency int) []found {
	result := make([]found, len(targets))
	groups := map[location][]int{}
	for i, t := range targets {
		p := location{t.mapping.Resource, t.mapping.Kind, t.namespace}
		groups[p] = append(groups[p], i)
	}
	var single []int
	for _, indices := range groups {
		if len(indices) < listFrom {
			single = append(single, indices...)
			continue
		}
		single = append(single, c.list(ctx, targets, indices, result)...)
	}
	parallel(ctx, len(single), concurrency, func(n int) { result[single[n]] = c.get(ctx, targets[single[n]]) })
	if err := ctx.Err(); err != nil {
		for _, i := range single {
			if result[i].obj == nil && result[i].err == nil {
				result[i].err = err // it may not have been read
			}
		}
	}
	return result
}

// list reads objects with a list, and stores them in result. It returns the indices that must be
// read one by one.
func (c *cluster) list(ctx context.Context, targets []target, indices []int, result []found) (rest []int) {
	t := targets[indices[0]]
	exists := make(map[string]bool, len(indices)) // false: it does not exist, or was not requested
	for _, i := range indices {
		exists[targets[i].name] = true
	}
	asked := len(exists)
	limits := slices.Repeat([]int64{blindPage}, (1+listFactor)*asked/blindPage)
	if c.opts.Metadata != nil {
		if limits = c.pages(ctx, t, exists); limits == nil {
			return indices
		}
	}
	byName := make(map[string]*unstructured.Unstructured, asked)
	var options metav1.ListOptions
	for _, options.Limit = range limits {
		page, err := c.resource(t.mapping, t.namespace).List(ctx, options)
		if err != nil {
			return indices
		}
		for _, item := range page.Items { // item is a copy: a pointer into the page would keep the page in memory
			if exists[item.GetName()] {
				byName[item.GetName()] = &item
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			clear(exists)
			break
		}
	}
	for _, i := range indices {
		obj, ok := byName[targets[i].name]
		if ok {
			// Items of a list may lack apiVersion and kind, which the list has once.
			obj.SetAPIVersion(targets[i].mapping.Resource.GroupVersion().String())
			obj.SetKind(targets[i].mapping.Kind)
		}
		if result[i] = (found{obj: obj}); !ok && exists[targets[i].name] {
			rest = append(rest, i)
		}
	}
	return rest
}

// pages returns the sizes of pages up to the last requested object, so that each page has few
// unrelated objects. The result is nil after an error, or if there are too many unrelated objects.
// Objects that do not exist are removed from asked.
func (c *cluster) pages(ctx context.Context, t target, asked map[string]bool) []int64 {
	namespace := t.namespace
	if !t.mapping.Namespaced {
		namespace = ""
	}
	there := make(map[string]bool, len(asked))
	limits, size, others, total := []int64{}, int64(0), 0, 0
	last, end := 0, int64(0) // page and position of the last requested object
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, next, err := c.metadataPage(ctx, t.mapping, namespace, options)
		if err != nil {
			return nil
		}
		for _, obj := range page {
			is := asked[obj.GetName()]
			if size == pageSize || !is && others == maxOthers {
				limits, size, others = append(limits, size), 0, 0
			}
			if size++; is {
				there[obj.GetName()] = true
				last, end = len(limits), size
			} else {
				others, total = others+1, total+1
			}
		}
		switch {
		case total > listFactor*len(asked):
			return nil
		case next == "" || len(there) == len(asked):
			maps.DeleteFunc(asked, func(name string, _ bool) bool { return !there[name] })
			if end == 0 {
				return limits[:0]
			}
			return append(limits[:last], end)
		}
		options.Continue = next
	}
}

func (c *cluster) metadataPage(
	ctx context.Context, m discovery.Mapping, namespace string, options metav1.ListOptions,
) (page []metav1.Object, next string, err error) {
	if c.opts.Metadata != nil {
		list, err := c.opts.Metadata.Resource(m.Resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			page = append(page, &list.Items[i])
		}
		return page, list.Continue, nil
	}
	list, err := c.resource(m, namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		page = append(page, &list.Items[i])
	}
	return page, list.GetContinue(), nil
}

func entryOf(m discovery.Mapping, obj metav1.Object) v1alpha1.AppliedResourceMeta {
	return v1alpha1.AppliedResourceMeta{
		ResourceIdentifier: v1alpha1.ResourceIdentifier{
			Group: m.Resource.Group, Version: m.Resource.Version, Kind: m.Kind, Resource: m.Resource.Resource,
			Namespace: obj.GetNamespace(), Name: obj.GetName(),
		},
		UID: obj.GetUID(),
	}
}

// parallel calls f with 0 to n-1, at most limit calls at a time, until ctx ends.
func parallel(ctx context.Context, n, limit int, f func(int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, limit) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	workers.Wait()
}

// errMoved: an object or AppliedWork has changed since it was read. The caller tries again.
var errMoved = errors.New("others changed the AppliedWork during each attempt: try again")

// attempts is the number of retries after a concurrent change.
const attempts = 12

// pause waits for a short random time that grows with each attempt.
func pause(ctx context.Context, attempt int) error {
	return wait.Sleep(ctx, clock.RealClock{}, rand.N(10*time.Millisecond<<min(attempt, 5)))
}
