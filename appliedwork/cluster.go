// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// listFrom is how many objects of a kind in a namespace are read with one list in place of a get each.
	listFrom = 50
	// listFactor bounds what a list may read that nobody asked for, as a multiple of what was asked for.
	listFactor = 2
	// maxOthers is how many objects that nobody asked for are in memory at a time: each of them may
	// have 1.5 MiB.
	maxOthers = 10
	pageSize  = 500
	// blindPage is the size of a page of whole objects of others.
	blindPage = 50
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
	exists := make(map[string]bool, len(indices)) // false: it does not, or is not asked for
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
		for _, item := range page.Items { // a copy: a pointer to the item would keep the page
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
			// An item of a list may lack what the list says once.
			obj.SetAPIVersion(targets[i].mapping.resource.GroupVersion().String())
			obj.SetKind(targets[i].mapping.kind)
		}
		if result[i] = (found{obj: obj}); !ok && exists[targets[i].name] {
			rest = append(rest, i)
		}
	}
	return rest
}

// pages returns the sizes of pages, up to the last object that is asked for, each with few
// objects of others. It is nil when that would be too many pages. What does not exist it takes out
// of asked.
func (c *cluster) pages(ctx context.Context, t target, asked map[string]bool) []int64 {
	namespace := t.namespace
	if !t.mapping.namespaced {
		namespace = ""
	}
	there := make(map[string]bool, len(asked))
	limits, size, others, total := []int64{}, int64(0), 0, 0
	last, end := 0, int64(0) // of the object that was asked for last: its page, and its place there
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
	return wait.Sleep(ctx, clock.RealClock{}, rand.N(10*time.Millisecond<<min(attempt, 5)))
}
