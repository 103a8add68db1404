// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// gather is the time that a change of an object waits for other changes of the same work.
	gather = 50 * time.Millisecond
	// leastInterval is the minimum time between two services of a work for changes of objects, in
	// case others fight for a field.
	leastInterval = 500 * time.Millisecond
	// lookAtStates is the interval at which the states of watches are checked for refused ones.
	lookAtStates = 5 * time.Second
)

// watches reports changes of the objects of works. Each object has one API watch, and the number of
// watches is limited.
type watches struct {
	watcher dynamicwatcher.DynamicWatcher
	cluster string
	most    int

	mu      sync.Mutex
	changed func(name string)
	denied  map[spoke.Target]bool
}

func newWatches(o Options) (*watches, error) {
	w := &watches{cluster: o.ClusterName, most: o.MaxWatches}
	var err error
	w.watcher, err = dynamicwatcher.New(&dynamicwatcher.Options{
		Config:     o.Config,
		Reconciler: dynamicwatcher.ReconcilerFunc(w.reconcile),
		// A kind may be defined later: its objects are applied when it exists.
		MissingKind:       dynamicwatcher.Wait,
		BatchWindow:       gather,
		MinInterval:       leastInterval,
		Name:              "work-agent",
		MetricsRegisterer: o.Metrics,
	})
	return w, err
}

// start watches until ctx ends, and calls changed with a work when its objects have changed, or the
// right to watch them.
func (w *watches) start(ctx context.Context, changed func(name string)) error {
	w.mu.Lock()
	w.changed = changed
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { w.lookForDenied(ctx) })
	return w.watcher.Start(ctx)
}

func (w *watches) reconcile(_ context.Context, work dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed(work.Name)
	return reconcile.Result{}, nil
}

// lookForDenied queues the works of an object when the agent loses or regains the right to watch
// it. No trigger reports kinds that cannot be watched.
func (w *watches) lookForDenied(ctx context.Context) {
	for wait.Sleep(ctx, clock.RealClock{}, lookAtStates) == nil {
		now := map[spoke.Target]bool{}
		states := w.watcher.Status()
		for _, s := range states {
			if s.State == dynamicwatcher.StateNoAccess {
				now[s.Object] = true
			}
		}
		w.mu.Lock()
		before := w.denied
		w.denied = now
		w.mu.Unlock()
		for _, s := range states {
			if now[s.Object] != before[s.Object] {
				for _, work := range w.watcher.WatchersOf(s.Object) {
					w.changed(work.Name)
				}
			}
		}
	}
}

// target returns the identifier of a work as a watcher.
func (w *watches) target(name string) spoke.Target {
	return spoke.Target{Group: workv1.GroupName, Version: "v1", Kind: "ManifestWork", Namespace: w.cluster, Name: name}
}

// refused returns the kinds of the objects of a work that the agent may not watch.
func (w *watches) refused(work string) []string {
	w.mu.Lock()
	denied := w.denied
	w.mu.Unlock()
	if len(denied) == 0 {
		return nil
	}
	kinds := sets.Set[string]{}
	for _, t := range w.watcher.WatchesOf(w.target(work)) {
		if denied[t] {
			kinds.Insert(schema.GroupKind{Group: t.Group, Kind: t.Kind}.String())
		}
	}
	return sets.List(kinds)
}

// set replaces the watched objects of a work. The watch of an object with a version reports only
// later changes. It reports whether all objects are watched: objects beyond the limit are not.
func (w *watches) set(ctx context.Context, name string, objects spoke.Targets) (all bool) {
	work := w.target(name)
	added := maps.Clone(objects)
	var kept []spoke.Target
	before := w.watcher.WatchesOf(work)
	for _, t := range before {
		if _, ok := objects[t]; ok {
			kept = append(kept, t)
			delete(added, t)
		}
	}
	if len(kept) < len(before) {
		if err := w.watcher.AddOrUpdateWatcher(work, kept...); err != nil {
			w.failed(ctx, work, err)
			return false
		}
	}
	all = true
	for t, version := range added {
		if len(w.watcher.WatchersOf(t)) == 0 && w.watcher.GetWatchCount() >= w.most {
			all = false
		} else if err := w.watcher.AddWatcherAt(work, t, version); err != nil {
			w.failed(ctx, t, err)
			all = false
		}
	}
	return all
}

// drop ends all watches of a work.
func (w *watches) drop(ctx context.Context, name string) {
	work := w.target(name)
	if err := w.watcher.RemoveWatcher(work); err != nil {
		w.failed(ctx, work, err)
	}
}

func (w *watches) failed(ctx context.Context, t spoke.Target, err error) {
	if !errors.Is(err, dynamicwatcher.ErrNotStarted) {
		klog.FromContext(ctx).Error(err, "Cannot watch", "object", fmt.Sprint(t))
	}
}
