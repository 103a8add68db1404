// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is a small work agent: a controller that applies the manifests of each ManifestWork
// to one cluster and reports the results in the work's status.
//
// It uses the generated clientset and is independent of brokers. With the clientset of a
// [work.Agent], works are received over a broker. With the Kubernetes clientset, they would be read
// from a hub. A manifest may fail because a later work has its namespace or its definition. The
// agent retries it with exponential backoff, and reports Applied=False in the meantime.
//
// A [cluster.Cluster] applies and removes works.
//
// [work.Agent]: https://pkg.go.dev/github.com/spokewire/sdk-go/cloudevents/work#Agent
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/cluster"
)

// Defaults of [Options].
const (
	DefaultWorkers      = 4
	DefaultPollInterval = 500 * time.Millisecond
	DefaultRetryAfter   = 50 * time.Millisecond
	DefaultRetryAtMost  = 5 * time.Second
)

// Options configures an [Agent].
type Options struct {
	// ClusterName is the namespace of the cluster's works. Required.
	ClusterName string
	// Works reads and patches works. Required.
	Works workclientset.Interface
	// Cluster is the cluster for the manifests. Required.
	Cluster cluster.Cluster
	// Observe is called after each change of the cluster; nil means no calls. It is called from
	// several goroutines and must not block.
	Observe func(Event)
	// Workers is the number of concurrent reconciles. Defaults to 4.
	Workers int
	// PollInterval is the interval between reads of the status while a workload has replicas that
	// are not ready, or a deleted object still exists. Defaults to 500 ms.
	PollInterval time.Duration
}

// Event is a work that was applied to the cluster or removed from it.
type Event struct {
	// Work is the work's name and Generation the applied generation.
	Work       string
	Generation int64
	// Deleted is true if the work's objects were deleted. Otherwise they were applied.
	Deleted bool
	// Err is the reason if some objects could not be applied. The agent retries them.
	Err error
}

// Agent serves the works of one cluster.
type Agent struct {
	o      Options
	queue  workqueue.TypedRateLimitingInterface[string]
	lister worklisters.ManifestWorkNamespaceLister
}

// New returns an agent that is not started.
func New(o Options) (*Agent, error) {
	if o.ClusterName == "" || o.Works == nil || o.Cluster == nil {
		return nil, errors.New("agent: ClusterName, Works and Cluster are required")
	}
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.PollInterval <= 0 {
		o.PollInterval = DefaultPollInterval
	}
	return &Agent{o: o}, nil
}

// Start serves works until ctx ends and returns nil when all its goroutines have ended. It may be called once.
func (a *Agent) Start(ctx context.Context) error {
	a.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](DefaultRetryAfter, DefaultRetryAtMost))
	factory := workinformers.NewSharedInformerFactoryWithOptions(a.o.Works, 0,
		workinformers.WithNamespace(a.o.ClusterName))
	informer := factory.Work().V1().ManifestWorks()
	a.lister = informer.Lister().ManifestWorks(a.o.ClusterName)
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.enqueue(obj) },
		UpdateFunc: func(before, after any) {
			if needsWork(before.(*workv1.ManifestWork), after.(*workv1.ManifestWork)) {
				a.enqueue(after)
			}
		},
		DeleteFunc: func(obj any) { a.enqueue(obj) },
	})
	if err != nil {
		return fmt.Errorf("watch works: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()

	var workers sync.WaitGroup
	for range a.o.Workers {
		workers.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	a.queue.ShutDown()
	workers.Wait()
	return nil
}

// needsWork reports whether a change requires a reconcile. Changes of the agent's own status do
// not.
func needsWork(before, after *workv1.ManifestWork) bool {
	return before.UID != after.UID || before.Generation != after.Generation || after.DeletionTimestamp != nil
}

func (a *Agent) enqueue(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		a.queue.Add(key.Name)
	}
}

// next reconciles one work. It returns false when the queue is shut down.
func (a *Agent) next(ctx context.Context) bool {
	name, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(name)
	again, err := a.reconcile(ctx, name)
	switch {
	case err != nil:
		// The status of the work has the error too, so it is only a debug line.
		klog.FromContext(ctx).V(1).Info("Failed to serve the work, retrying", "cluster", a.o.ClusterName, "work", name,
			"reason", err)
		a.queue.AddRateLimited(name)
	case again:
		a.queue.Forget(name)
		a.queue.AddAfter(name, a.o.PollInterval)
	default:
		a.queue.Forget(name)
	}
	return true
}

// reconcile applies one work to the cluster, or removes it, and reports the status. It returns true
// if the cluster has not finished and the work must be reconciled again.
func (a *Agent) reconcile(ctx context.Context, name string) (again bool, err error) {
	cached, err := a.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w := cached.DeepCopy()
	if w.DeletionTimestamp != nil {
		return a.finalize(ctx, w)
	}
	if w, err = a.addFinalizer(ctx, w); err != nil {
		return false, err
	}
	results, again, err := a.o.Cluster.ApplyWork(ctx, w)
	if ctx.Err() != nil {
		return false, nil // the errors are caused by the stop
	}
	if failed := firstError(results); failed != nil {
		err = failed
	}
	a.o.Observe(Event{Work: name, Generation: w.Generation, Err: err})
	if err := a.report(ctx, w, statusOf(w, results)); err != nil {
		return false, err
	}
	return again || anyUnready(results), err
}
