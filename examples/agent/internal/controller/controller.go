// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller serves the works of one cluster: it has them applied, watches their objects,
// reports their status, and has them removed when they end.
//
// It uses the generated clientset of ManifestWorks and does not depend on the transport. A work is
// served when the work or one of its objects changes. It is also served when a time is over: after
// a failure, with growing pauses, when an object becomes degraded, when a finished work expires,
// and for polled objects.
package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
	"github.com/spokewire/sdk-go/internal/turns"
)

const (
	workers      = 8
	retryAfter   = 100 * time.Millisecond
	retryAtMost  = time.Minute
	leavingAgain = 5 * time.Second // if the watch does not report the deletion of an object
	mostWritten  = 100             // works that the informer has not received yet

	// maxMemory limits the decoded manifests of all large works that are served at the same time,
	// in bytes, as an estimate.
	maxMemory = 256 << 20
	// smallWork is the maximum memory of a work that waits for no other work, in bytes.
	smallWork = 1 << 20
	// leastMemory is the minimum that is counted for a large work. It limits the number of large
	// works that are served at the same time.
	leastMemory = 32 << 20
)

// Cluster is the managed cluster.
type Cluster interface {
	Begin(ctx context.Context, w *workv1.ManifestWork) (served func(), wait time.Duration, ends int)
	Apply(ctx context.Context, w *workv1.ManifestWork, keep func(*manifest.Manifest) bool) spoke.Result
	Remove(ctx context.Context, w *workv1.ManifestWork) (spoke.Removal, error)
	Evict(ctx context.Context, namespace, name string) (time.Duration, spoke.Removal, error)
	Recorded(ctx context.Context, namespace string) ([]string, error)
}

// Options configures a [Controller].
type Options struct {
	// ClusterName is the namespace of the cluster's works. Required.
	ClusterName string
	// Works reads works and writes their status. Required.
	Works workclientset.Interface
	// Cluster applies the manifests. Required.
	Cluster Cluster
	// Config is the configuration for the watches of objects. Required.
	Config *rest.Config
	// MaxWatches is the maximum number of watched objects; others are polled.
	MaxWatches int
	// PollInterval is the interval for polled objects, and for objects beyond the limit of watches.
	// Required.
	PollInterval time.Duration
	// DegradedAfter is the time after which an object that is not as desired is degraded. Required.
	DegradedAfter time.Duration
	// Evicts is whether the objects of works that the hub does not have are removed.
	Evicts bool
	// Metrics registers the metrics of works and of their queue; nil means none.
	Metrics prometheus.Registerer
	// Observe is called for each [Event], from several goroutines, and must not block; nil means no
	// calls.
	Observe func(Event)
}

// Event is the result of serving a work.
type Event struct {
	// Work is the name of the work. Generation is the served generation; 0 if the hub does not have
	// the work.
	Work       string
	Generation int64
	// Application is the name in the label of a manifest, and Record the UID of
	// the AppliedWork. Both may be empty.
	Application string
	Record      types.UID
	// Deleted is whether the objects of the work are removed. Otherwise they are applied, or Err is
	// the reason why not.
	Deleted bool
	// Changed is whether the agent wrote to the cluster.
	Changed bool
	Err     error
}

// Controller serves the works of one cluster.
type Controller struct {
	o        Options
	watches  *watches
	queue    workqueue.TypedRateLimitingInterface[string]
	informer cache.SharedIndexInformer
	latest   cache.MutationCache // of works: newer than informer after a write
	builder  *status.Builder
	metrics  *metrics
	memory   *turns.Turns
	large    sync.WaitGroup // goroutines that serve large works

	lost atomic.Bool // the last result of Checked

	mu     sync.Mutex
	states map[string]*state // by the work's name
}

// New returns a Controller. It starts nothing.
func New(o Options) (*Controller, error) {
	if o.ClusterName == "" || o.Works == nil || o.Cluster == nil || o.Config == nil || o.PollInterval <= 0 ||
		o.DegradedAfter <= 0 {
		return nil,
			errors.New("controller: ClusterName, Works, Cluster, Config, PollInterval and DegradedAfter are required")
	}
	builder, err := status.NewBuilder(o.DegradedAfter)
	if err != nil {
		return nil, err
	}
	watches, err := newWatches(o)
	if err != nil {
		return nil, err
	}
	queue, err := newQueue(o.Metrics)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		o: o, builder: builder, watches: watches, queue: queue, memory: turns.New(maxMemory), states: map[string]*state{},
	}
	c.informer = workinformers.NewManifestWorkInformer(o.Works, o.ClusterName, 0, cache.Indexers{})
	c.latest = cache.NewIntegerResourceVersionMutationCacheWithOptions(klog.Background(), c.informer.GetStore(),
		cache.MutationCacheOptions{MaxCacheSize: mostWritten, TTL: retryAtMost})
	if c.metrics, err = newMetrics(o.Metrics, c.informer.GetStore()); err != nil {
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

func (c *Controller) observe(e Event) {
	c.metrics.observe(e)
	if c.o.Observe != nil {
		c.o.Observe(e)
	}
}

// needsService reports whether the agent must serve a changed work. It returns false for the
// agent's own changes of the status.
func needsService(before, after *workv1.ManifestWork) bool {
	return before.UID != after.UID || before.Generation != after.Generation || after.DeletionTimestamp != nil
}

func (c *Controller) changed(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		c.serve(key.Name)
	}
}

// serve queues a work at once. The backoff starts again, because the change may have removed the
// cause of earlier failures.
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
		watchesErr = c.watches.start(ctx, c.serve)
	})
	group.Go(func() { c.informer.RunWithContext(ctx) })
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

// Checked must be called with the result of each check of the API server. If it does not answer any
// more, all works report that, because works that do not change send no requests. If it answers
// again, all works are served again.
func (c *Controller) Checked(ctx context.Context, err error) {
	if lost := err != nil; ctx.Err() != nil || c.lost.Swap(lost) == lost {
		return
	}
	for _, key := range c.informer.GetStore().ListKeys() {
		_, name, _ := cache.SplitMetaNamespaceKey(key) // the informer made the key
		if err == nil {
			c.serve(name)
			continue
		}
		failed := c.condition(ctx, name, workv1.WorkAvailable, status.Outage(err))
		if failed != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(1).Info("Failed to report an outage", "work", name, "reason", failed)
		}
	}
}

// Synced reports whether the first list of works is complete.
func (c *Controller) Synced() bool { return c.informer.HasSynced() }

// next serves one work; it returns false when the queue is shut down.
func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	var source string
	var size int
	if w, err := c.get(name); err == nil && w != nil {
		source, size = w.Labels[codec.LabelOriginalSource], manifest.Memory(w)
	}
	if size <= smallWork {
		defer c.queue.Done(name)
		c.serveNow(ctx, name, smallWork)
		return true
	}
	// A large work waits until there is memory for it. Meanwhile the workers serve other works, also
	// if a source has many large works.
	c.large.Go(func() {
		defer c.queue.Done(name)
		if end, err := c.memory.Take(ctx, source, max(size, leastMemory)); err == nil { // else ctx has ended
			defer end()
			c.serveNow(ctx, name, size)
		}
	})
	return true
}

// serveNow serves a work if its decoded manifests need no more than memory bytes.
func (c *Controller) serveNow(ctx context.Context, name string, memory int) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("cluster", c.o.ClusterName, "work", name))
	var after time.Duration
	err := guard.Recover(ctx, "serving the work", func() (err error) {
		after, err = c.reconcile(ctx, name, memory)
		return err
	})
	if errors.As(err, new(*guard.PanicError)) {
		err = errors.Join(err, guard.Recover(ctx, "reporting a panic",
			func() error { return c.degrade(ctx, name, status.ReasonPanicked, err.Error()) }))
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		// The work's status has it too, if it could be written.
		klog.FromContext(ctx).V(1).Info("Failed to serve the work, retrying", "reason", err)
		c.queue.AddRateLimited(name)
	default:
		c.queue.Forget(name)
		if after > 0 {
			c.queue.AddAfter(name, after)
		}
	}
}

// get returns the latest known version of a work, which the caller must not change; nil if the work
// does not exist. The informer may be behind the writes of this controller, and a write based on an
// old version is a conflict.
func (c *Controller) get(name string) (*workv1.ManifestWork, error) {
	found, _, err := c.latest.GetByKey(c.o.ClusterName + "/" + name)
	w, _ := found.(*workv1.ManifestWork)
	return w, err
}
