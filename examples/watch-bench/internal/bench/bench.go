// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures the dynamic watcher.
package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// Options configures [Run].
type Options struct {
	Objects, Watchers, Size, Updates int
	// Consolidate lets a shared watch replace the single watches, before their memory is measured.
	Consolidate bool
}

// writers is the number of objects that are created concurrently.
const writers = 16

// bench is one run.
type bench struct {
	Options
	client    kubernetes.Interface
	namespace string
	watcher   dynamicwatcher.DynamicWatcher
	traffic   traffic
	seen      chan string // names of reconciled objects
	listening atomic.Bool
}

// Run creates the objects, measures, and deletes them.
func Run(ctx context.Context, config *rest.Config, o Options) (result *Result, err error) {
	b := &bench{Options: o, seen: make(chan string, 1)}
	own := rest.CopyConfig(config)
	own.QPS = -1
	if b.client, err = kubernetes.NewForConfig(own); err != nil {
		return nil, err
	}
	ns, err := b.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "watch-bench-"}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a namespace on %s: %w", config.Host, err)
	}
	b.namespace = ns.Name
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if e := b.client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); e != nil && err == nil {
			result, err = nil, e
		}
	}()
	if err := b.createObjects(ctx); err != nil {
		return nil, err
	}
	// The limits of the user's configuration stay: they do not apply to watches.
	var options dynamicwatcher.Options
	if o.Consolidate {
		options.Consolidate = &dynamicwatcher.ConsolidateOptions{}
	}
	if b.watcher, err = dynamicwatcher.NewForConfig(b.traffic.measure(config),
		dynamicwatcher.ReconcilerFunc(b.reconcile), &options); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.watcher.Start(running) }()
	defer func() {
		cancel()
		if e := <-ended; err == nil {
			err = e
		}
	}()
	<-b.watcher.Started()
	result = &Result{Options: o}
	if err := b.establish(ctx, result); err != nil {
		return nil, err
	}
	return result, b.update(ctx, result)
}

func (b *bench) name(i int) string { return fmt.Sprintf("object-%d", i) }

func (b *bench) object(i, generation int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: b.name(i)},
		Data:       map[string]string{"generation": fmt.Sprint(generation), "filling": strings.Repeat("x", b.Size)},
	}
}

func (b *bench) createObjects(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for part := range writers {
		group.Go(func() {
			for i := part; i < b.Objects && ctx.Err() == nil; i += writers {
				if _, err := b.client.CoreV1().ConfigMaps(b.namespace).Create(ctx, b.object(i, 0),
					metav1.CreateOptions{}); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// watcherOf returns the watcher of an object.
func (b *bench) watcherOf(i int) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{
		Version: "v1", Kind: "Benchmark", Namespace: b.namespace, Name: fmt.Sprintf("watcher-%d", i%b.Watchers),
	}
}

func (b *bench) watched(i int) dynamicwatcher.ObjectIdentifier {
	return dynamicwatcher.ObjectIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: b.name(i)}
}

// establish watches all objects.
func (b *bench) establish(ctx context.Context, r *Result) error {
	before := live()
	begin := time.Now()
	for i := range b.Objects {
		if err := b.watcher.AddWatcher(b.watcherOf(i), b.watched(i)); err != nil {
			return err
		}
	}
	for i := range b.Watchers {
		if err := b.watcher.WaitForSync(ctx, b.watcherOf(i)); err != nil {
			return err
		}
	}
	r.EstablishSeconds = time.Since(begin).Seconds()
	r.Watches, r.Requests, r.Connections = b.watcher.GetWatchCount(), b.traffic.requests.Load(), b.traffic.dials.Load()
	// The API server sends each watch a bookmark on its next tick, within 1.25 s. It must not count
	// as part of an event.
	settle := 1500 * time.Millisecond
	if b.Consolidate {
		settle = 12 * time.Second // single watches end some seconds after the start of the shared watch
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, s := range b.watcher.Status() {
		if s.Consolidated {
			r.Consolidated++
		}
	}
	after := live()
	n := float64(b.Objects)
	r.HeapPerWatch, r.StackPerWatch = float64(after.heap-before.heap)/n, float64(after.stack-before.stack)/n
	r.GoroutinesPerWatch = float64(after.goroutines-before.goroutines) / n
	return nil
}

// update changes objects, one after the other, and waits for the reconcile of each.
func (b *bench) update(ctx context.Context, r *Result) error {
	took := make([]time.Duration, 0, b.Updates)
	before := b.traffic.bytes.Load()
	b.listening.Store(true)
	for n := range b.Updates {
		i := n * 7919 % b.Objects // spread over all objects
		begin := time.Now()
		if _, err := b.client.CoreV1().ConfigMaps(b.namespace).Update(ctx, b.object(i, n+1),
			metav1.UpdateOptions{}); err != nil {
			return err
		}
		for name := ""; name != b.name(i); {
			select {
			case name = <-b.seen:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		took = append(took, time.Since(begin))
	}
	b.listening.Store(false)
	r.Latency = percentiles(took)
	r.BytesPerEvent = float64(b.traffic.bytes.Load()-before) / float64(b.Updates)
	return nil
}

func (b *bench) reconcile(ctx context.Context, _ dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	for _, t := range dynamicwatcher.TriggersFrom(ctx) {
		if b.listening.Load() && t.Type == dynamicwatcher.TriggerModified {
			select {
			case b.seen <- t.Name:
			case <-ctx.Done():
			}
		}
	}
	return reconcile.Result{}, nil
}
