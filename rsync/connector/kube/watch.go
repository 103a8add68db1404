// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

var _ connector.StatusWatcher = (*conn)(nil)

// WatchStatus implements [connector.StatusWatcher]. It watches the pairs of interest, and only the
// metadata of objects. It continues until ctx ends, even if the cluster does not answer or denies
// access: the engine polls objects without a watch.
func (c *cluster) WatchStatus(ctx context.Context, changed func()) error {
	ctx = klog.NewContext(ctx, logr.Discard())
	defer c.questions.watch(changed)()
	var watches sync.WaitGroup
	defer watches.Wait()
	running := map[pair]context.CancelFunc{}
	defer func() {
		for _, cancel := range running {
			cancel()
		}
	}()
	ticker := c.options.Clock.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		wanted, woken := c.interest.watched(c.options.MaxWatches)
		for p, cancel := range running {
			if _, ok := wanted[p]; !ok {
				cancel()
				delete(running, p)
			}
		}
		for p := range wanted {
			if running[p] == nil {
				one, cancel := context.WithCancel(ctx)
				running[p] = cancel
				watches.Go(func() { c.keepWatching(one, p, changed) })
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-woken:
		case <-ticker.C(): // some objects may have no recent call
		}
	}
}

// keepWatching keeps a watch on a pair open until ctx ends.
func (c *cluster) keepWatching(ctx context.Context, p pair, changed func()) {
	const first, most = 200 * time.Millisecond, 30 * time.Second
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if c.watch(ctx, p, changed) {
			attempt = 0
		}
		_ = wait.Sleep(ctx, c.options.Clock, wait.Backoff(first, most, attempt))
	}
}

// watch opens one watch, and waits until it ends. It reports whether the watch began.
func (c *cluster) watch(ctx context.Context, p pair, changed func()) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cl, err := c.acquire(ctx)
	if err != nil {
		return false
	}
	defer c.giveBack(cl)
	w, err := c.begin(ctx, cl, p)
	if err != nil {
		return false
	}
	defer w.Stop()
	changed() // for changes before the watch
	for {
		select {
		case <-ctx.Done():
			return true
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return true
			}
			if object, err := meta.Accessor(e.Object); err == nil && c.interest.has(p, object.GetName()) {
				changed()
			}
		}
	}
}

// begin opens a watch from now on. The list is only for the current resource version.
func (c *cluster) begin(ctx context.Context, cl *client, p pair) (watch.Interface, error) {
	limited, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	k, err := c.place(limited, cl, p.gvk, appcontext.Object{
		Group: p.gvk.Group, Kind: p.gvk.Kind, Namespace: p.namespace,
	}, false)
	if err != nil {
		return nil, err
	}
	resource := cl.metadata.Resource(k.resource).Namespace(p.namespace)
	list, err := resource.List(limited, metav1.ListOptions{Limit: 1})
	if err != nil {
		if apierrors.IsNotFound(err) {
			c.kinds.forget(p.gvk)
		}
		return nil, err
	}
	return resource.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
}
