// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller serves the works of one cluster: it has them applied, looks after what they have brought, reports, and
// has it removed when they end.
//
// It takes the generated clientset of ManifestWorks and knows nothing of where that leads. A work is served when it changes,
// when one of its objects does, and when time makes a difference: after a failure, with growing pauses, when something will
// count as degraded, when a finished work expires, and for objects that are to be polled.
package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/recovery"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
	"github.com/spokewire/sdk-go/internal/turns"
)

const (
	workers      = 8
	retryAfter   = 100 * time.Millisecond
	retryAtMost  = time.Minute
	leavingAgain = 5 * time.Second // should the watch of an object that is leaving not tell
)

// Cluster is the managed cluster.
type Cluster interface {
	Begin(ctx context.Context, w *workv1.ManifestWork) (wait time.Duration, ends int)
	Served(ctx context.Context, w *workv1.ManifestWork)
	Apply(ctx context.Context, w *workv1.ManifestWork, keep func(*manifest.Manifest) bool) spoke.Result
	Remove(ctx context.Context, w *workv1.ManifestWork) (spoke.Removal, error)
	Evict(ctx context.Context, namespace, name string) (time.Duration, spoke.Removal, error)
	Recorded(ctx context.Context, namespace string) ([]string, error)
}

// Options configures a [Controller].
type Options struct {
	// ClusterName is the namespace of the cluster's works. Required.
	ClusterName string
	// Works is where works come from and status goes. Required.
	Works workclientset.Interface
	// Cluster is where manifests are applied. Required.
	Cluster Cluster
	// Watches tells of changes of objects. Required.
	Watches *Watches
	// PollInterval is how often objects are looked at that are to be polled, or that are too many to be watched. Required.
	PollInterval time.Duration
	// DegradedAfter is for how long something is not as desired until it is degraded. Required.
	DegradedAfter time.Duration
	// Evicts is whether what belongs to works that the hub does not have is removed.
	Evicts bool
	// Metrics takes metrics of works and of their queue; nil means none.
	Metrics prometheus.Registerer
	// Observe is told what was done, from several goroutines; nil means nobody. It must not block.
	Observe func(Event)
}

// Event is something that was done.
type Event struct {
	// Work is the work's name and Generation the generation served, 0 of a work that the hub does not have.
	Work       string
	Generation int64
	// Deleted is true when the work's objects are gone. Otherwise they are applied, or Err says why not.
	Deleted bool
	// Changed is whether anything was written to the cluster.
	Changed bool
	Err     error
}

// Controller serves the works of one cluster.
type Controller struct {
	o        Options
	queue    workqueue.TypedRateLimitingInterface[string]
	informer cache.SharedIndexInformer
	factory  workinformers.SharedInformerFactory
	lister   worklisters.ManifestWorkNamespaceLister
	builder  *status.Builder
	metrics  *metrics
	memory   *turns.Turns
	large    sync.WaitGroup // goroutines that serve large works

	mu       sync.Mutex
	written  map[string]write // by the work's name, as are these:
	rests    map[string]recess
	contests map[string]contests
}

// New returns a Controller. It starts nothing.
func New(o Options) (*Controller, error) {
	if o.ClusterName == "" || o.Works == nil || o.Cluster == nil || o.Watches == nil || o.PollInterval <= 0 || o.DegradedAfter <= 0 {
		return nil, errors.New("controller: ClusterName, Works, Cluster, Watches, PollInterval and DegradedAfter are required")
	}
	metrics, told := newMetrics(), o.Observe
	o.Observe = func(e Event) {
		if metrics.observe(e); told != nil {
			told(e)
		}
	}
	builder, err := status.NewBuilder(o.DegradedAfter)
	if err != nil {
		return nil, err
	}
	queue, err := newQueue(o.Metrics)
	if err != nil {
		return nil, err
	}
	c := &Controller{o: o, builder: builder, queue: queue, metrics: metrics, memory: turns.New(maxMemory), written: map[string]write{}, rests: map[string]recess{}, contests: map[string]contests{}}
	c.factory = workinformers.NewSharedInformerFactoryWithOptions(o.Works, 0, workinformers.WithNamespace(o.ClusterName))
	works := c.factory.Work().V1().ManifestWorks()
	c.informer, c.lister = works.Informer(), works.Lister().ManifestWorks(o.ClusterName)
	if err := metrics.register(o.Metrics, c.lister); err != nil {
		queue.ShutDown()
		return nil, fmt.Errorf("register the metrics of works: %w", err)
	}
	_, err = c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.changed,
		UpdateFunc: func(before, after any) {
			if needsService(before.(*workv1.ManifestWork), after.(*workv1.ManifestWork)) {
				c.changed(after)
			}
		},
		DeleteFunc: c.changed,
	})
	return c, err
}

// needsService tells a change that the agent must act on from the echo of its own status.
func needsService(before, after *workv1.ManifestWork) bool {
	return before.UID != after.UID || before.Generation != after.Generation || after.DeletionTimestamp != nil
}

func (c *Controller) changed(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		c.serve(key.Name)
	}
}

// serve has a work served at once. What went wrong before something changed need not go wrong again: pauses are short.
func (c *Controller) serve(name string) {
	c.queue.Forget(name)
	c.queue.Add(name)
}

// Start serves works until ctx ends and returns nil when all its goroutines have ended. It may be called once.
func (c *Controller) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var watchesErr error
	group.Go(func() {
		defer cancel()
		watchesErr = c.o.Watches.start(ctx, c.serve)
	})
	c.factory.Start(ctx.Done())
	group.Go(func() {
		<-ctx.Done()
		c.factory.Shutdown()
	})
	if cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		group.Go(func() { c.findOrphans(ctx) })
		for range workers {
			group.Go(func() {
				for c.next(ctx) {
				}
			})
		}
	}
	<-ctx.Done()
	c.queue.ShutDown()
	group.Wait()
	c.large.Wait()
	if watchesErr != nil {
		return fmt.Errorf("watch the objects of works: %w", watchesErr)
	}
	return nil
}

// Synced reports whether the works of the hub are known.
func (c *Controller) Synced() bool { return c.informer.HasSynced() }

// next serves one work; it returns false when the queue is shut down.
func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	if source, size := c.needs(name); size > smallWork {
		c.large.Go(func() { c.nextLarge(ctx, name, source, size) })
		return true
	}
	defer c.queue.Done(name)
	c.serveNow(ctx, name, smallWork)
	return true
}

// serveNow serves a work if its decoded manifests take no more than this memory.
func (c *Controller) serveNow(ctx context.Context, name string, memory int) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("cluster", c.o.ClusterName, "work", name))
	var after time.Duration
	err := recovery.Call(ctx, "serving the work", func() (err error) {
		after, err = c.reconcile(ctx, name, memory)
		return err
	})
	if panicked := (*recovery.PanicError)(nil); errors.As(err, &panicked) {
		err = errors.Join(err, recovery.Call(ctx, "reporting a panic", func() error { return c.degrade(ctx, name, status.ReasonPanicked, err.Error()) }))
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		// Also in the work's status, where it can be there.
		klog.FromContext(ctx).V(1).Info("Work is tried again", "reason", err)
		c.queue.AddRateLimited(name)
	default:
		c.queue.Forget(name)
		if after > 0 {
			c.queue.AddAfter(name, after)
		}
	}
}

// watcher is how the watches know a work.
func (c *Controller) watcher(name string) spoke.Target {
	return targetFor(schema.GroupVersionKind{Group: workv1.GroupName, Version: "v1", Kind: "ManifestWork"}, c.o.ClusterName, name)
}

func targetFor(gvk schema.GroupVersionKind, namespace, name string) spoke.Target {
	return spoke.Target{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace, Name: name}
}
