// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is a small work agent: a controller that applies the manifests of each ManifestWork to one
// cluster and reports how that went in the work's status.
//
// It is written against the generated clientset and knows nothing of brokers: with the clientset of a
// [work.Agent] it gets its works over one, with the Kubernetes clientset it would read them from a hub. A
// manifest that cannot be applied, because its namespace or its definition is in a work that comes later, is
// tried again with growing pauses, and meanwhile reported with Applied=False.
//
// How a work comes to its cluster and goes from there is the cluster's own affair: see [cluster.Cluster].
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
	// Works is where works come from and status goes. Required.
	Works workclientset.Interface
	// Cluster is where manifests are applied. Required.
	Cluster cluster.Cluster
	// Observe is told what was done to the cluster; nil means nobody. It is called from several goroutines
	// and must not block.
	Observe func(Event)
	// Workers is how many works are served at once. Defaults to 4.
	Workers int
	// PollInterval is how often status is read again while a workload has replicas that are not ready, or a
	// deleted object is still there. Defaults to 500 ms.
	PollInterval time.Duration
}

// Event is one work brought to the cluster, or taken from it.
type Event struct {
	// Work is the work's name and Generation the generation applied.
	Work       string
	Generation int64
	// Deleted is true when the work's objects are gone; otherwise they are applied.
	Deleted bool
	// Err is why not all could be applied. They will be tried again.
	Err error
}

// Agent serves the works of one cluster.
type Agent struct {
	o      Options
	queue  workqueue.TypedRateLimitingInterface[string]
	lister worklisters.ManifestWorkNamespaceLister
}

// New returns an agent. It starts nothing.
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
	factory := workinformers.NewSharedInformerFactoryWithOptions(a.o.Works, 0, workinformers.WithNamespace(a.o.ClusterName))
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

// needsWork tells a change that the agent must act on from the echo of its own status.
func needsWork(before, after *workv1.ManifestWork) bool {
	return before.UID != after.UID || before.Generation != after.Generation || after.DeletionTimestamp != nil
}

func (a *Agent) enqueue(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		a.queue.Add(key.Name)
	}
}

// next serves one work; it returns false when the queue is shut down.
func (a *Agent) next(ctx context.Context) bool {
	name, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(name)
	again, err := a.reconcile(ctx, name)
	switch {
	case err != nil:
		// Also in the work's status, so no more than a debug line here.
		klog.FromContext(ctx).V(1).Info("Work is tried again", "cluster", a.o.ClusterName, "work", name, "reason", err)
		a.queue.AddRateLimited(name)
	case again:
		a.queue.Forget(name)
		a.queue.AddAfter(name, a.o.PollInterval)
	default:
		a.queue.Forget(name)
	}
	return true
}

// reconcile brings one work to the cluster, or takes it away, and reports. It returns true when something is
// still on its way in the cluster and should be looked at again.
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
		return false, nil // what failed, failed because we are stopping
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
