// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

// NewInformer returns an informer that receives the works of a source or an agent in this process
// without encoding and decoding them, as the informers of its typed clientset do. It is for the
// option NewInformer of controller-runtime's cache:
//
//	cache.Options{NewInformer: restconfig.NewInformer}
//
// For other objects, and for works of an API server, the informer is the same as from
// [cache.NewSharedIndexInformer]. The bytes of manifests are shared, as with the typed clientset: do
// not change them.
func NewInformer(
	lw cache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	if _, ok := obj.(*workv1.ManifestWork); ok {
		lw = direct{lw, cache.ToListerWatcherWithContext(lw)}
	}
	return cache.NewSharedIndexInformer(lw, obj, resync, indexers)
}

// direct lists and watches works by reference, if the server is in this process.
type direct struct {
	cache.ListerWatcher
	next cache.ListerWatcherWithContext
}

// IsWatchListSemanticsUnSupported is how client-go asks whether a watch may begin with a list.
func (d direct) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(d.ListerWatcher)
}

// ListWithContext implements [cache.ListerWithContext].
func (d direct) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	answer := &restapi.Direct{}
	list, err := d.next.ListWithContext(restapi.WithDirect(ctx, answer), o)
	if err != nil || answer.List == nil {
		return list, err
	}
	return answer.List, nil
}

// WatchWithContext implements [cache.WatcherWithContext].
func (d direct) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	answer := &restapi.Direct{}
	response, err := d.next.WatchWithContext(restapi.WithDirect(ctx, answer), o)
	if err != nil || answer.Watch == nil {
		return response, err
	}
	w := &directWatch{answer.Watch, response, make(chan watch.Event), make(chan struct{}), sync.Once{}}
	go w.run()
	return w, nil
}

// directWatch has the events of a watch and the lifetime of the response without them.
type directWatch struct {
	events, response watch.Interface
	result           chan watch.Event
	stopped          chan struct{}
	once             sync.Once
}

func (w *directWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *directWatch) Stop() { w.once.Do(func() { close(w.stopped) }) }

// run ends with the events, which end with the response.
func (w *directWatch) run() {
	defer close(w.result)
	defer w.response.Stop()
	for {
		select {
		case e, ok := <-w.events.ResultChan():
			if !ok {
				return
			}
			if work, ok := e.Object.(*workv1.ManifestWork); ok { // it is a copy
				work.APIVersion, work.Kind = workv1.GroupVersion.String(), "ManifestWork"
			}
			select {
			case w.result <- e:
			case <-w.stopped:
				return
			}
		case <-w.stopped:
			return
		}
	}
}
