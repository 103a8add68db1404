// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const (
	// listFrom is how many objects of a kind in a namespace are read with one list in place of a get each.
	listFrom = 50
	// listFactor bounds what a list may read that nobody asked for, as a multiple of what was asked for.
	listFactor = 20
	pageSize   = 500
)

// cluster is what Tracker, Applier, Pruner and Collector share: how to reach the API server.
type cluster struct {
	opts    Options
	kinds   *kinds
	intents *intents
	access  *access
}

// resource returns the client for the objects of a kind in a namespace, which counts for namespaced kinds only.
func (c *cluster) resource(m mapping, namespace string) dynamic.ResourceInterface {
	if m.namespaced {
		return c.opts.Client.Resource(m.resource).Namespace(namespace)
	}
	return c.opts.Client.Resource(m.resource)
}

// target is an object to read.
type target struct {
	mapping         mapping
	namespace, name string
}

// found is the object as it is: nil when it does not exist, unless err says that this is not known.
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
		c.kinds.forget(t.mapping.resource.Group)
		return found{err: &TypeNotServedError{Kind: t.mapping.groupKind(), Err: err}}
	case apierrors.IsNotFound(err):
		return found{}
	}
	return found{err: err}
}

// read reads objects as they are now, at the same place in the result. Where many are of one kind and namespace they are
// listed.
func (c *cluster) read(ctx context.Context, targets []target, concurrency int) []found {
	result := make([]found, len(targets))
	type place struct {
		mapping   string
		namespace string
	}
	groups := map[place][]int{}
	for i, t := range targets {
		p := place{t.mapping.resource.String(), t.namespace}
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

// list fills in what it finds and returns the others, to be read one by one: all, when the list fails or has too many
// objects of others in it.
func (c *cluster) list(ctx context.Context, targets []target, indices []int, result []found) (rest []int) {
	t := targets[indices[0]]
	byName := make(map[string]*unstructured.Unstructured, len(indices))
	options := metav1.ListOptions{Limit: pageSize}
	for seen := 0; ; {
		page, err := c.resource(t.mapping, t.namespace).List(ctx, options)
		if err != nil {
			return indices
		}
		for i := range page.Items {
			byName[page.Items[i].GetName()] = &page.Items[i]
		}
		seen += len(page.Items)
		options.Continue = page.GetContinue()
		if options.Continue == "" {
			break
		}
		if seen > listFactor*len(indices) {
			rest = indices
			break
		}
	}
	for _, i := range indices {
		obj, ok := byName[targets[i].name]
		if ok {
			// An item of a list may lack what the list says once.
			obj.SetAPIVersion(targets[i].mapping.resource.GroupVersion().String())
			obj.SetKind(targets[i].mapping.kind)
		}
		result[i] = found{obj: obj}
	}
	return rest
}

// parallel calls f with 0 to n-1, at most limit at a time, until ctx ends, and returns when all calls have.
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

// attempts is how often a write is tried that others were faster than.
const attempts = 12

// pause waits a little, longer with each attempt, so that writers who collided do not do so again.
func pause(ctx context.Context, attempt int) error {
	limit := 10 * time.Millisecond << min(attempt, 5)
	timer := time.NewTimer(rand.N(limit))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
