// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/dynamicwatcher/internal/stream"
)

// Watcher implements [DynamicWatcher]. Its methods may be called from any goroutine.
type Watcher struct {
	options Options
	metrics *metrics // nil without a registerer
	kinds   *kinds
	lookups *http.Client // of kinds; nil if it is the user's
	opener  stream.Opener
	wide    *stream.HTTP // the opener, if it can watch a whole namespace; nil with the user's clients
	// queue is nil before Start, because it has goroutines.
	queue   workqueue.TypedRateLimitingInterface[ObjectIdentifier]
	invalid error // of NewWithClients: Start returns it
	started chan struct{}
	ended   chan struct{}  // closed when Start's context has ended
	group   sync.WaitGroup // of watches

	mu       sync.Mutex
	registry registry
	groups   map[sharedKey]*shared
	arrivals map[schema.GroupVersionKind]*arrival
	batches  map[ObjectIdentifier]*batch
	ctx      context.Context // of Start; nil before
	life     lifecycle
	due      map[ObjectIdentifier]struct{} // watchers that are queued and were not removed since
	logger   klog.Logger
}

var _ DynamicWatcher = &Watcher{}

// Start watches and reconciles until ctx ends. See [DynamicWatcher].
func (w *Watcher) Start(ctx context.Context) error {
	if w.invalid != nil {
		return fmt.Errorf("dynamicwatcher.NewWithClients: %w", w.invalid)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	if w.life != created {
		w.mu.Unlock()
		return errors.New("dynamicwatcher: already started: call Start only once")
	}
	w.queue = workqueue.NewTypedRateLimitingQueueWithConfig(w.options.RateLimiter,
		workqueue.TypedRateLimitingQueueConfig[ObjectIdentifier]{Name: w.options.Name, Clock: w.options.Clock})
	w.life, w.ctx, w.logger = running, ctx, klog.FromContext(ctx).WithValues("dynamicwatcher", w.options.Name)
	for _, g := range w.groups {
		g.considerLocked()
	}
	for _, o := range w.registry.objects {
		w.launchLocked(o)
	}
	close(w.started)
	w.mu.Unlock()

	var workers sync.WaitGroup
	for range w.options.MaxConcurrentReconciles {
		workers.Go(func() { w.work(ctx) })
	}
	<-ctx.Done()
	w.queue.ShutDown()
	w.mu.Lock()
	w.life = stopped
	close(w.ended)
	clear(w.batches)
	w.mu.Unlock()
	workers.Wait()
	w.group.Wait()
	w.kinds.close()
	if w.lookups != nil {
		stream.CloseIdle(w.lookups)
	}
	if c, ok := w.opener.(interface{ Close() }); ok {
		c.Close()
	}
	w.metrics.unregister()
	return nil
}

// Started returns a channel that is closed when Start has begun. See [DynamicWatcher].
func (w *Watcher) Started() <-chan struct{} { return w.started }

// NeedLeaderElection returns true, because most reconciles write. See [DynamicWatcher].
func (w *Watcher) NeedLeaderElection() bool { return true }

func (w *Watcher) dropLocked(o *object) {
	o.deliverLocked(ownEnded)
	if o.group != nil {
		o.group.leaveLocked(o)
	}
	o.settleLocked(objectDropped)
}

// AddOrUpdateWatcher replaces the objects that a watcher watches. See [DynamicWatcher].
func (w *Watcher) AddOrUpdateWatcher(watcher ObjectIdentifier, watched ...ObjectIdentifier) error {
	return w.change(watcher, true, "", watched...)
}

// AddWatcher adds one object to those that a watcher watches. See [DynamicWatcher].
func (w *Watcher) AddWatcher(watcher, watched ObjectIdentifier) error {
	return w.change(watcher, false, "", watched)
}

// AddWatcherAt is AddWatcher for a watcher that has read the object at a resource version. See
// [DynamicWatcher].
func (w *Watcher) AddWatcherAt(watcher, watched ObjectIdentifier, resourceVersion string) error {
	return w.change(watcher, false, resourceVersion, watched)
}

// RemoveWatcher removes a watcher and its query batch. See [DynamicWatcher].
func (w *Watcher) RemoveWatcher(watcher ObjectIdentifier) error {
	if err := validateWatcher(watcher); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.batches, watcher)
	w.subscribeLocked(watcher, true, nil)
	delete(w.registry.watchers, watcher) // and its pending triggers
	delete(w.due, watcher)
	return nil
}

func (w *Watcher) change(watcher ObjectIdentifier, replace bool, seen string, watched ...ObjectIdentifier) error {
	if err := validateWatcher(watcher); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	if w.isStopped() {
		return errStopped
	}
	for i, o := range watched {
		if err := o.Validate(); err != nil {
			return fmt.Errorf("watched[%d]: %w", i, err)
		}
	}
	normal, err := w.normalize(watched...)
	if err != nil {
		return err
	}
	want := make([]wanted, 0, len(normal))
	for _, o := range normal {
		want = append(want, wanted{o, seen})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.life == stopped:
		return errStopped
	case w.batches[watcher] != nil:
		return fmt.Errorf("%w: %s", ErrQueryBatchInProgress, watcher)
	}
	w.subscribeLocked(watcher, replace, want)
	return nil
}

// subscribeLocked adds objects to a watcher, or replaces its objects.
func (w *Watcher) subscribeLocked(watcher ObjectIdentifier, replace bool, want []wanted) {
	keep := make(map[*object]struct{}, len(want))
	for _, wanted := range want {
		o, joined := w.registry.subscribe(watcher, wanted, w.newObjectLocked)
		keep[o] = struct{}{}
		if joined && o.list.synced() {
			o.notifyInitialOfLocked(watcher)
		}
	}
	if replace {
		w.keepOnlyLocked(watcher, func(o *object) bool { _, ok := keep[o]; return ok })
	}
}

func (w *Watcher) keepOnlyLocked(watcher ObjectIdentifier, keep func(*object) bool) {
	record := w.registry.watchers[watcher]
	if record == nil {
		return
	}
	for o := range record.objects {
		if !keep(o) && w.registry.unsubscribe(record, o) {
			w.dropLocked(o)
		}
	}
	w.registry.tidy(record)
}

func (w *Watcher) newObjectLocked(want wanted) *object {
	o := &object{
		watcher: w, id: want.id, seenUntil: w.options.Clock.Now(), state: StateEstablishing, since: w.options.Clock.Now(),
	}
	if w.options.EnableCache {
		o.cached = map[types.UID]*unstructured.Unstructured{}
	}
	if g := w.groupOfLocked(o.id); g != nil {
		g.joinLocked(o)
	}
	w.launchLocked(o)
	return o
}

const maxLookups = 16

// normalize looks up the kinds, and removes the namespace of cluster-scoped objects.
func (w *Watcher) normalize(ids ...ObjectIdentifier) ([]ObjectIdentifier, error) {
	ctx, cancel := context.WithTimeout(w.context(), lookupTimeout)
	defer cancel()
	type answer struct {
		gvr ScopedGVR
		err error
	}
	answers := map[schema.GroupVersionKind]*answer{}
	var lookups sync.WaitGroup
	slots := make(chan struct{}, maxLookups)
	for _, o := range ids {
		gvk := o.GroupVersionKind()
		if answers[gvk] != nil {
			continue
		}
		a := &answer{}
		answers[gvk] = a
		lookups.Go(func() {
			slots <- struct{}{}
			a.gvr, a.err = w.kinds.resolve(ctx, gvk)
			<-slots
		})
	}
	lookups.Wait()
	normal := make([]ObjectIdentifier, 0, len(ids))
	for _, o := range ids {
		a := answers[o.GroupVersionKind()]
		o, err := w.scope(o, a.gvr, a.err)
		if err != nil {
			return nil, err
		}
		normal = append(normal, o)
	}
	return normal, nil
}

// scope removes the namespace of an object if its kind is cluster-scoped.
func (w *Watcher) scope(o ObjectIdentifier, gvr ScopedGVR, lookup error) (ObjectIdentifier, error) {
	switch {
	case errors.Is(lookup, ErrNoVersionedResource) && w.options.MissingKind == Wait:
	case errors.Is(lookup, ErrNoVersionedResource):
		return o, fmt.Errorf("%w: use a kind, such as ConfigMap, not its resource, such as configmaps, "+
			"or set Options.MissingKind to Wait for a CRD", lookup)
	case lookup != nil:
		return o, lookup
	case !gvr.Namespaced:
		o.Namespace = ""
	case o.Namespace == "" && o.Name != "":
		return o, o.lacksNamespace()
	}
	return o, nil
}

func (w *Watcher) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life == stopped
}

// asKnown is normalize for watched objects, whose kinds are known: it sends no request.
func (w *Watcher) asKnown(o ObjectIdentifier) ObjectIdentifier {
	if gvr, ok, err := w.kinds.known(o.GroupVersionKind()); ok && err == nil && !gvr.Namespaced {
		o.Namespace = ""
	}
	return o
}

func (w *Watcher) context() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		return context.Background()
	}
	return w.ctx
}

// GetWatchCount returns the number of watched objects and selectors. See [DynamicWatcher].
func (w *Watcher) GetWatchCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life != running {
		return 0
	}
	return len(w.registry.objects)
}

// Status returns the state of each watched object. See [DynamicWatcher].
func (w *Watcher) Status() []WatchStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == stopped {
		return nil
	}
	all := make([]WatchStatus, 0, len(w.registry.objects))
	for _, o := range w.registry.objects {
		all = append(all, o.statusLocked())
	}
	slices.SortFunc(all, func(a, b WatchStatus) int { return compareIdentifiers(a.Object, b.Object) })
	return all
}

// WatchersOf returns the watchers of an object. See [DynamicWatcher].
func (w *Watcher) WatchersOf(watched ObjectIdentifier) []ObjectIdentifier {
	watched = w.asKnown(watched)
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []ObjectIdentifier
	if o := w.registry.objects[watched]; o != nil {
		for watcher := range o.watchers.all() {
			all = append(all, watcher.id)
		}
	}
	slices.SortFunc(all, compareIdentifiers)
	return all
}

// WatchesOf returns the objects of a watcher. See [DynamicWatcher].
func (w *Watcher) WatchesOf(watcher ObjectIdentifier) []ObjectIdentifier {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []ObjectIdentifier
	for _, o := range w.registry.watches(watcher) {
		all = append(all, o.id)
	}
	slices.SortFunc(all, compareIdentifiers)
	return all
}

// WaitForSync waits until each watch of a watcher has delivered the existing objects. See
// [DynamicWatcher].
func (w *Watcher) WaitForSync(ctx context.Context, watcher ObjectIdentifier) error {
	w.mu.Lock()
	objects, life := w.registry.watches(watcher), w.life
	w.mu.Unlock()
	if life == stopped {
		return errStopped
	}
	for _, o := range objects {
		if err := w.await(ctx, o); err != nil {
			select {
			case <-w.started:
				return err
			default:
				return fmt.Errorf("%w: %w", errUnstarted, err)
			}
		}
	}
	return nil
}

func (w *Watcher) await(ctx context.Context, o *object) error {
	for {
		w.mu.Lock()
		list, refusal, changed := o.list, o.refusal, o.changedLocked()
		w.mu.Unlock()
		switch {
		case list == listRefused:
			return fmt.Errorf("watch %s: %w", o.id, refusal)
		case list.settled():
			return nil
		}
		if err := w.sleepUntil(ctx, changed); err != nil {
			return fmt.Errorf("watch %s: %w", o.id, err)
		}
	}
}

// sleepUntil waits until a channel is closed, ctx ends or the watcher is stopped.
func (w *Watcher) sleepUntil(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-w.ended:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
