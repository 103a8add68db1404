// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package source provides a controller-runtime source that is backed by a dynamicwatcher. The
// controller reconciles an object again when one of its dependencies changes. It uses its own queue
// and workers for that.
//
//	dependencies, err := source.New(&dynamicwatcher.Options{Config: manager.GetConfig()})
//	if err != nil {
//		return err
//	}
//	err = builder.ControllerManagedBy(manager).
//		For(&Policy{}).
//		WatchesRawSource(dependencies).
//		Complete(&reconciler{watcher: dependencies.Watcher()})
//
// The reconciler calls the watcher's AddOrUpdateWatcher with the dependencies of an object, and
// RemoveWatcher when the object is deleted. All requests go through the controller's queue, so an
// object is never reconciled concurrently.
//
// The options MinInterval, BatchWindow and DisableInitialReconcile apply. The controller, not
// RateLimiter or MaxConcurrentReconciles, sets the retries and the number of workers. In the
// Reconcile of a controller, TriggersFrom returns nil.
package source

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// Source adds a request for a watcher to a controller's queue when one of its watched objects
// changes. Only one controller may start it. The methods may be called from any goroutine.
type Source = TypedSource[reconcile.Request]

// TypedSource is a [Source] for controllers with another type of request.
type TypedSource[request comparable] struct {
	watcher *dynamicwatcher.Watcher
	to      func(dynamicwatcher.ObjectIdentifier) request
	queue   workqueue.TypedRateLimitingInterface[request] // set before the watcher is started
	began   atomic.Bool
	done    chan struct{}
}

var _ source.Source = &Source{}

var errStarted = errors.New("dynamicwatcher/source: already started: a source belongs to one controller")

// New returns a source of requests with the watcher's namespace and name. It makes no request to
// the API server. The error is that of [dynamicwatcher.New], or an ErrInvalidInput if
// Options.Reconciler is set.
func New(options *dynamicwatcher.Options) (*Source, error) {
	return NewTyped(options, requestFor)
}

func requestFor(watcher dynamicwatcher.ObjectIdentifier) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: watcher.Namespace, Name: watcher.Name}}
}

// NewTyped is [New] with a function that returns the request for a watcher. The function is called
// from any goroutine.
func NewTyped[request comparable](
	options *dynamicwatcher.Options, to func(watcher dynamicwatcher.ObjectIdentifier) request,
) (*TypedSource[request], error) {
	var own dynamicwatcher.Options
	if options != nil {
		own = *options
	}
	switch {
	case own.Reconciler != nil:
		return nil, fmt.Errorf("source.New: %w: Options.Reconciler: must be nil: the controller reconciles",
			dynamicwatcher.ErrInvalidInput)
	case to == nil:
		return nil, fmt.Errorf("source.NewTyped: %w: to: must not be nil", dynamicwatcher.ErrInvalidInput)
	}
	s := &TypedSource[request]{to: to, done: make(chan struct{})}
	own.Reconciler = dynamicwatcher.ReconcilerFunc(s.enqueue)
	var err error
	if s.watcher, err = dynamicwatcher.New(&own); err != nil {
		return nil, err
	}
	return s, nil
}

// Watcher returns the Watcher of the source, for the reconciler's AddOrUpdateWatcher and
// RemoveWatcher. The controller starts it: do not call its Start.
func (s *TypedSource[request]) Watcher() *dynamicwatcher.Watcher { return s.watcher }

// Start implements [source.TypedSource]. The controller calls it once. It does not block: the
// Watcher runs until ctx ends.
func (s *TypedSource[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	if !s.began.CompareAndSwap(false, true) {
		return errStarted
	}
	s.queue = queue
	go func() {
		defer close(s.done)
		if err := s.watcher.Start(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to start the watcher")
		}
	}()
	return nil
}

// Done returns a channel that is closed after the Watcher has ended.
func (s *TypedSource[request]) Done() <-chan struct{} { return s.done }

// String implements [fmt.Stringer], for the controller's log.
func (s *TypedSource[request]) String() string { return "dynamicwatcher" }

func (s *TypedSource[request]) enqueue(
	_ context.Context, watcher dynamicwatcher.ObjectIdentifier,
) (reconcile.Result, error) {
	s.queue.Add(s.to(watcher))
	return reconcile.Result{}, nil
}

// NewControllerRuntimeSource returns a reconciler for a dynamicwatcher, and the source of its
// requests, as in kubernetes-dependency-watches. The caller creates and starts the Watcher.
func NewControllerRuntimeSource() (*ControllerRuntimeSourceReconciler, source.Source) {
	r := &ControllerRuntimeSourceReconciler{started: make(chan struct{})}
	return r, source.Func(r.start)
}

// ControllerRuntimeSourceReconciler is a reconciler that adds requests to the queue of the
// controller that starts its source. Reconcile waits until the controller has started the source.
type ControllerRuntimeSourceReconciler struct {
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	began   atomic.Bool
	started chan struct{} // closed when queue is set
}

func (r *ControllerRuntimeSourceReconciler) start(
	_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) error {
	if !r.began.CompareAndSwap(false, true) {
		return errStarted
	}
	r.queue = queue
	close(r.started)
	return nil
}

// Reconcile implements [dynamicwatcher.Reconciler]. It adds a request with the watcher's namespace
// and name to the controller's queue. The error is the error of ctx.
func (r *ControllerRuntimeSourceReconciler) Reconcile(
	ctx context.Context, watcher dynamicwatcher.ObjectIdentifier,
) (reconcile.Result, error) {
	select {
	case <-r.started:
		r.queue.Add(requestFor(watcher))
		return reconcile.Result{}, nil
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	}
}
