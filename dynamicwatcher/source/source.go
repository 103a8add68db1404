// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package source makes a dynamicwatcher a source of a controller-runtime controller: what the controller reconciles is
// reconciled, in the controller's own queue and workers, also when an object changes that it depends on.
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
// The reconciler says with the watcher's AddOrUpdateWatcher what an object depends on, and with RemoveWatcher that it is
// gone. There is one event loop, so that an object is never reconciled twice at once, and needs no lock for that.
//
// Of the watcher's options, those that say when it would reconcile hold: MinInterval, BatchWindow,
// DisableInitialReconcile and the like. How often failures are tried again, and by how many workers, is the
// controller's to say. TriggersFrom tells nothing in a controller's reconcile.
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

// Source is a source of requests for watchers whose watched objects have changed. It belongs to one controller, which
// starts it. Its methods may be called from any goroutine.
type Source = TypedSource[reconcile.Request]

// TypedSource is a [Source] for controllers whose requests are of another type.
type TypedSource[request comparable] struct {
	watcher *dynamicwatcher.Watcher
	to      func(dynamicwatcher.ObjectIdentifier) request
	queue   workqueue.TypedRateLimitingInterface[request] // set before the watcher is started
	began   atomic.Bool
	done    chan struct{}
}

var _ source.Source = &Source{}

var errStarted = errors.New("dynamicwatcher/source: already started: a source belongs to one controller")

// New returns a source whose requests have the watcher's namespace and name. It makes no request to the API server. The
// error is that of [dynamicwatcher.New], and an ErrInvalidInput for a Reconciler in the options: that is the controller's.
func New(options *dynamicwatcher.Options) (*Source, error) {
	return NewTyped(options, requestFor)
}

func requestFor(watcher dynamicwatcher.ObjectIdentifier) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: watcher.Namespace, Name: watcher.Name}}
}

// NewTyped is [New] with a function that makes the request for a watcher. It is called from any goroutine.
func NewTyped[request comparable](options *dynamicwatcher.Options, to func(watcher dynamicwatcher.ObjectIdentifier) request) (*TypedSource[request], error) {
	var own dynamicwatcher.Options
	if options != nil {
		own = *options
	}
	switch {
	case own.Reconciler != nil:
		return nil, fmt.Errorf("source.New: %w: Options.Reconciler must be nil: the controller reconciles", dynamicwatcher.ErrInvalidInput)
	case to == nil:
		return nil, fmt.Errorf("source.NewTyped: %w: the function is nil", dynamicwatcher.ErrInvalidInput)
	}
	s := &TypedSource[request]{to: to, done: make(chan struct{})}
	own.Reconciler = dynamicwatcher.ReconcilerFunc(s.enqueue)
	var err error
	if s.watcher, err = dynamicwatcher.New(&own); err != nil {
		return nil, err
	}
	return s, nil
}

// Watcher returns what the reconciler adds watches to. The controller starts it with the source: do not call its Start.
func (s *TypedSource[request]) Watcher() *dynamicwatcher.Watcher { return s.watcher }

// Start implements [source.TypedSource]; controllers call it, once. It does not wait: the watcher runs until ctx ends.
func (s *TypedSource[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	if !s.began.CompareAndSwap(false, true) {
		return errStarted
	}
	s.queue = queue
	go func() {
		defer close(s.done)
		if err := s.watcher.Start(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "The dynamic watcher does not run")
		}
	}()
	return nil
}

// Done is closed when the context of Start has ended and nothing of the watcher is left.
func (s *TypedSource[request]) Done() <-chan struct{} { return s.done }

// String implements [fmt.Stringer], for the controller's log.
func (s *TypedSource[request]) String() string { return "dynamicwatcher" }

// enqueue is the watcher's reconciler. The queue takes any number of requests without waiting, each once.
func (s *TypedSource[request]) enqueue(_ context.Context, watcher dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	s.queue.Add(s.to(watcher))
	return reconcile.Result{}, nil
}

// NewControllerRuntimeSource returns a reconciler for a dynamicwatcher, and the source of its requests, as in
// kubernetes-dependency-watches. The caller makes and starts the watcher; [New] does that itself.
func NewControllerRuntimeSource() (*ControllerRuntimeSourceReconciler, source.Source) {
	r := &ControllerRuntimeSourceReconciler{started: make(chan struct{})}
	return r, source.Func(r.start)
}

// ControllerRuntimeSourceReconciler has watchers reconciled by the one controller that starts the source which was made with it.
// Until then Reconcile waits.
type ControllerRuntimeSourceReconciler struct {
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	began   atomic.Bool
	started chan struct{} // closed when there is a queue
}

func (r *ControllerRuntimeSourceReconciler) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if !r.began.CompareAndSwap(false, true) {
		return errStarted
	}
	r.queue = queue
	close(r.started)
	return nil
}

// Reconcile implements [dynamicwatcher.Reconciler]. It adds a request with the watcher's namespace and name to the controller's
// queue. The error is that of ctx.
func (r *ControllerRuntimeSourceReconciler) Reconcile(ctx context.Context, watcher dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	select {
	case <-r.started:
		r.queue.Add(requestFor(watcher))
		return reconcile.Result{}, nil
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	}
}
