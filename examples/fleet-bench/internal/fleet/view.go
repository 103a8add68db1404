// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// view is the watch of an agent or the hub on its works.
type view interface {
	// RunWithContext returns when ctx has ended.
	RunWithContext(ctx context.Context)
	// HasSynced reports whether the initial list is complete.
	HasSynced() bool
}

func newInformer(c workclientset.Interface, h cache.ResourceEventHandlerFuncs) (view, error) {
	informer := workinformers.NewManifestWorkInformer(c, "", 0, cache.Indexers{})
	_, err := informer.AddEventHandler(h)
	return informer, err
}

// stream is a watch without a cache. It is enough for a simulated agent, and cheaper than an
// informer.
type stream struct {
	works  worktyped.ManifestWorkInterface
	handle func(*workv1.ManifestWork)
	failed func(error)
	synced atomic.Bool
}

// HasSynced implements view.
func (s *stream) HasSynced() bool { return s.synced.Load() }

// RunWithContext implements view.
func (s *stream) RunWithContext(ctx context.Context) {
	initial := true
	for ctx.Err() == nil {
		w, err := s.works.Watch(ctx, metav1.ListOptions{
			SendInitialEvents: &initial, AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			if ctx.Err() == nil {
				s.failed(fmt.Errorf("watch: %w", err))
			}
			return
		}
		for e := range w.ResultChan() {
			s.event(e)
		}
		w.Stop() // a watch that was too slow starts again
	}
}

func (s *stream) event(e watch.Event) {
	obj, ok := e.Object.(*workv1.ManifestWork)
	switch {
	case !ok:
	case e.Type == watch.Added || e.Type == watch.Modified:
		s.handle(obj)
	case e.Type == watch.Bookmark && obj.Annotations[metav1.InitialEventsAnnotationKey] == "true":
		s.synced.Store(true)
	}
}
