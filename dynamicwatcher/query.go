// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// batch is the state of a query batch of one watcher.
type batch struct {
	asked map[*object]struct{}
	added map[*object]struct{} // objects in asked that the watcher did not watch before
}

// StartQueryBatch begins to record the objects and lists that the watcher reads. See
// [DynamicWatcher].
func (w *Watcher) StartQueryBatch(watcher ObjectIdentifier) error {
	if err := w.readable(watcher); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.runningLocked(); err != nil {
		return err
	}
	if w.batches[watcher] != nil {
		return fmt.Errorf("%w: %s", ErrQueryBatchInProgress, watcher)
	}
	w.batches[watcher] = &batch{asked: map[*object]struct{}{}, added: map[*object]struct{}{}}
	return nil
}

// EndQueryBatch makes the recorded objects the watched objects of the watcher. See
// [DynamicWatcher].
func (w *Watcher) EndQueryBatch(watcher ObjectIdentifier) error {
	return w.endBatch(watcher, func(b *batch, o *object) bool { _, keep := b.asked[o]; return keep })
}

// AbortQueryBatch restores the watches before StartQueryBatch. See [DynamicWatcher].
func (w *Watcher) AbortQueryBatch(watcher ObjectIdentifier) error {
	return w.endBatch(watcher, func(b *batch, o *object) bool { _, added := b.added[o]; return !added })
}

func (w *Watcher) endBatch(watcher ObjectIdentifier, keep func(*batch, *object) bool) error {
	if err := w.readable(watcher); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.runningLocked(); err != nil {
		return err
	}
	b := w.batches[watcher]
	if b == nil {
		return fmt.Errorf("%w: %s", ErrQueryBatchNotStarted, watcher)
	}
	delete(w.batches, watcher)
	w.keepOnlyLocked(watcher, func(o *object) bool { return keep(b, o) })
	return nil
}

// QueryBatch calls f within a query batch. See [DynamicWatcher].
func (w *Watcher) QueryBatch(ctx context.Context, watcher ObjectIdentifier, f func(Querier) error) error {
	if err := w.StartQueryBatch(watcher); err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // an error or a panic
			_ = w.AbortQueryBatch(watcher) // it fails only when the watcher was stopped
		}
	}()
	if err := f(&querier{w, ctx}); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ended = true
	return w.EndQueryBatch(watcher)
}

type querier struct {
	watcher *Watcher
	ctx     context.Context
}

// Get implements [Querier].
func (q *querier) Get(
	watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	id := identify(gvk, namespace, name, nil)
	if err := id.Validate(); err != nil {
		return nil, err
	}
	return first(q.watcher.query(q.ctx, watcher, id))
}

// List implements [Querier].
func (q *querier) List(
	watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	id := identify(gvk, namespace, "", selector)
	if err := id.validateParts(); err != nil {
		return nil, err
	}
	if selector != nil {
		if _, selectable := selector.Requirements(); !selectable { // labels.Nothing has the same text as labels.Everything
			return []unstructured.Unstructured{}, nil
		}
	}
	return q.watcher.query(q.ctx, watcher, id)
}

// Get implements [Querier].
func (w *Watcher) Get(
	watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, name string,
) (*unstructured.Unstructured, error) {
	return (&querier{w, w.context()}).Get(watcher, gvk, namespace, name)
}

// List implements [Querier].
func (w *Watcher) List(
	watcher ObjectIdentifier, gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	return (&querier{w, w.context()}).List(watcher, gvk, namespace, selector)
}

// query watches an object or list for a watcher, and returns it when a watch delivers its changes.
func (w *Watcher) query(ctx context.Context, watcher, id ObjectIdentifier) ([]unstructured.Unstructured, error) {
	if err := w.readable(watcher); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var o *object
	read := false
	defer func() {
		if o != nil && !read {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.endReadLocked(watcher, o, false)
		}
	}()
	for {
		gvr, lookup := w.kinds.resolve(ctx, id.GroupVersionKind())
		scoped, err := w.scope(id, gvr, lookup)
		if err != nil {
			return nil, err
		}
		asked, err := w.ask(watcher, scoped)
		if err != nil {
			return nil, err
		}
		o = asked
		objects, changed, err := w.current(watcher, o, lookup != nil)
		if read = err == nil; changed == nil {
			return objects, err
		}
		if ended := w.sleepUntil(ctx, changed); ended != nil {
			return nil, fmt.Errorf("%w: %w", err, ended)
		}
	}
}

// current returns the cached objects while a watch delivers their changes, an error if the server
// refuses access, or a channel that is closed when the caller should try again, and the reason.
func (w *Watcher) current(
	watcher ObjectIdentifier, o *object, missing bool,
) ([]unstructured.Unstructured, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := o.currentLocked()
	if o.state == StatePendingKind && !missing { // the kind exists now, and the watch has not begun
		err = fmt.Errorf("watch %s: %s", o.id, o.state)
	}
	switch {
	case err == nil:
		w.endReadLocked(watcher, o, true)
		return w.cachedLocked(o), nil, nil
	case o.state == StateNoAccess:
		return nil, nil, err
	}
	return nil, o.changedLocked(), err
}

// endReadLocked ends a read. A watcher that has not read the object is notified like others.
func (w *Watcher) endReadLocked(watcher ObjectIdentifier, o *object, did bool) {
	record := w.registry.watchers[watcher]
	s, ok := o.watchers.get(record)
	if !ok || !s.reading {
		return
	}
	s.reading = false
	if o.watchers.set(record, s); !did && !s.initial {
		o.notifyInitialLocked(record, s)
	}
}

func (w *Watcher) ask(watcher, id ObjectIdentifier) (*object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.runningLocked(); err != nil {
		return nil, err
	}
	b := w.batches[watcher]
	if b == nil {
		return nil, fmt.Errorf("%w: %s", ErrQueryBatchNotStarted, watcher)
	}
	o, joined := w.registry.subscribe(watcher, wanted{id: id}, w.newObjectLocked)
	b.asked[o] = struct{}{}
	if joined {
		b.added[o] = struct{}{}
		o.watchers.set(w.registry.watchers[watcher], subscription{initial: !o.list.synced(), reading: true})
	}
	return o, nil
}

// GetFromCache reads an object from the cache. See [DynamicWatcher].
func (w *Watcher) GetFromCache(
	gvk schema.GroupVersionKind, namespace string, name string,
) (*unstructured.Unstructured, error) {
	id := identify(gvk, namespace, name, nil)
	if err := id.Validate(); err != nil {
		return nil, err
	}
	return first(w.fromCache(id))
}

// ListFromCache reads a list from the cache. See [DynamicWatcher].
func (w *Watcher) ListFromCache(
	gvk schema.GroupVersionKind, namespace string, selector labels.Selector,
) ([]unstructured.Unstructured, error) {
	return w.fromCache(identify(gvk, namespace, "", selector))
}

func (w *Watcher) fromCache(id ObjectIdentifier) ([]unstructured.Unstructured, error) {
	if !w.options.EnableCache {
		return nil, ErrCacheDisabled
	}
	id = w.asKnown(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.registry.objects[id]
	if o == nil {
		return nil, fmt.Errorf("%w for %s", ErrNoCacheEntry, id)
	}
	return w.cacheOfLocked(o)
}

// ListWatchedFromCache returns all existing objects that the watcher watches. See [DynamicWatcher].
func (w *Watcher) ListWatchedFromCache(watcher ObjectIdentifier) ([]unstructured.Unstructured, error) {
	if !w.options.EnableCache {
		return nil, ErrCacheDisabled
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	objects := w.registry.watches(watcher)
	slices.SortFunc(objects, func(a, b *object) int { return compareIdentifiers(a.id, b.id) })
	all := []unstructured.Unstructured{}
	type key struct {
		kind schema.GroupKind
		name types.NamespacedName
	}
	seen := map[key]bool{} // a name and a selector may give the same object
	for _, o := range objects {
		cached, err := w.cacheOfLocked(o)
		if err != nil {
			return nil, err
		}
		for _, u := range cached {
			k := key{o.id.GroupVersionKind().GroupKind(), types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}}
			if !seen[k] {
				seen[k] = true
				all = append(all, u)
			}
		}
	}
	return all, nil
}

// cacheOfLocked returns the cached objects, or an ErrNoCacheEntry while no watch delivers changes.
func (w *Watcher) cacheOfLocked(o *object) ([]unstructured.Unstructured, error) {
	if err := o.currentLocked(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCacheEntry, err)
	}
	return w.cachedLocked(o), nil
}

// GVKToGVR returns the resource of a kind. See [DynamicWatcher].
func (w *Watcher) GVKToGVR(gvk schema.GroupVersionKind) (ScopedGVR, error) {
	if w.isStopped() {
		return ScopedGVR{}, errStopped
	}
	ctx, cancel := context.WithTimeout(w.context(), lookupTimeout)
	defer cancel()
	return w.kinds.resolve(ctx, gvk)
}

func (w *Watcher) readable(watcher ObjectIdentifier) error {
	w.mu.Lock()
	err := w.runningLocked()
	w.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !w.options.EnableCache:
		return ErrCacheDisabled
	}
	return validateWatcher(watcher)
}

func (w *Watcher) runningLocked() error {
	switch w.life {
	case created:
		return errUnstarted
	case stopped:
		return errStopped
	}
	return nil
}

// cachedLocked returns the cached objects, in the order of names.
func (w *Watcher) cachedLocked(o *object) []unstructured.Unstructured {
	all := make([]unstructured.Unstructured, 0, len(o.cached))
	for _, u := range o.cached {
		all = append(all, *u)
	}
	all = w.options.ObjectCacheOptions.copies(all)
	slices.SortFunc(all, func(a, b unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}
