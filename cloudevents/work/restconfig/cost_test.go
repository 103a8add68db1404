// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// cost is the memory of one work in an informer, and of one event, in bytes.
type cost struct{ kept, allocated, event int64 }

// informerOf starts an informer and returns it when it has synced.
type informerOf func(testing.TB, context.Context, *work.Source) toolscache.SharedIndexInformer

func informerFor(
	t testing.TB, ctx context.Context, c workclientset.Interface, //nolint:revive // testing.TB is first
) toolscache.SharedIndexInformer {
	factory := workinformers.NewSharedInformerFactory(c, 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	factory.Start(ctx.Done())
	t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(ctx.Done())
	return informer
}

var informersOf = map[string]informerOf{
	"typed clientset": func(t testing.TB, ctx context.Context, source *work.Source) toolscache.SharedIndexInformer {
		return informerFor(t, ctx, source.Clientset())
	},
	"cache of controller-runtime": func(
		t testing.TB, ctx context.Context, source *work.Source,
	) toolscache.SharedIndexInformer {
		return cachedInformer(t, ctx, configOf(t, source), cache.Options{})
	},
	"cache with NewInformer": func(
		t testing.TB, ctx context.Context, source *work.Source,
	) toolscache.SharedIndexInformer {
		return cachedInformer(t, ctx, configOf(t, source), cache.Options{NewInformer: restconfig.NewInformer})
	},
}

// startCache starts a cache of controller-runtime, and waits for its start.
func startCache(
	t testing.TB, ctx context.Context, config *rest.Config, o cache.Options, //nolint:revive // as above
) cache.Cache {
	t.Helper()
	o.Scheme = scheme
	informers, err := cache.New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- informers.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if !informers.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	return informers
}

func cachedInformer(
	t testing.TB, ctx context.Context, config *rest.Config, o cache.Options, //nolint:revive // as above
) toolscache.SharedIndexInformer {
	t.Helper()
	informer, err := startCache(t, ctx, config, o).GetInformer(ctx, &workv1.ManifestWork{})
	if err != nil {
		t.Fatal(err)
	}
	return informer.(toolscache.SharedIndexInformer)
}

// settledHeap returns the size of the heap when earlier tests have freed theirs.
func settledHeap() int64 {
	last := int64(-1)
	for range 20 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		if last >= 0 && last-now < 64<<10 {
			return now
		}
		last = now
		time.Sleep(20 * time.Millisecond)
	}
	return last
}

// measure returns the cost of an informer on a source with n works.
func measure(t testing.TB, n, size int, start informerOf) (out cost) {
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	client := source.Clientset().WorkV1()
	for i := range n {
		w := worktest.New(fmt.Sprint("w", i), strings.Repeat("x", size))
		_, err := client.ManifestWorks(fmt.Sprint("cluster", i%100)).Create(ctx, w, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(i int) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"a":"%d"}}}`, i)
		_, err := client.ManifestWorks("cluster0").Patch(
			ctx, "w0", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	const events = 200
	writes := func() {
		for i := range events {
			write(i)
		}
	}
	writes()
	alone, _ := alloctest.Cost(writes)
	before := settledHeap()
	var informer toolscache.SharedIndexInformer
	total, _ := alloctest.Cost(func() { informer = start(t, ctx, source) })
	out.allocated = int64(total) / int64(n)
	out.kept = (settledHeap() - before) / int64(n)
	if got := len(informer.GetStore().ListKeys()); got != n {
		t.Fatalf("the informer has %d works", got)
	}
	delivered := make(chan struct{}, 1)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			if obj.(*workv1.ManifestWork).Labels["a"] != "" {
				delivered <- struct{}{}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	each := func() {
		for i := range events {
			write(i)
			select {
			case <-delivered:
			case <-time.After(time.Minute):
				t.Fatal("no event")
			}
		}
	}
	each()
	total, _ = alloctest.Cost(each)
	out.event = (int64(total) - int64(alone)) / events
	return out
}

// TestCost compares the memory of informers over a configuration with that of an informer of the
// typed clientset. A decoded copy has its own manifests, and its decoder allocates several times
// the size of the object. NewInformer avoids both.
func TestCost(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates too")
	}
	const n = 10_000
	for _, size := range []int{10, 2000} {
		var typed cost
		t.Run(fmt.Sprintf("typed clientset, %d bytes", size), func(t *testing.T) {
			typed = measure(t, n, size, informersOf["typed clientset"])
			t.Logf("%+v", typed)
		})
		for name, limit := range map[string]struct{ kept, allocated, event float64 }{
			"cache with NewInformer":      {2, 2, 2},
			"cache of controller-runtime": {2 + float64(size)/400, 6 + float64(size)/400, 6 + float64(size)/400},
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				got := measure(t, n, size, informersOf[name])
				ratio := func(a, b int64) float64 { return float64(a) / float64(b) }
				kept, allocated := ratio(got.kept, typed.kept), ratio(got.allocated, typed.allocated)
				event := ratio(got.event, typed.event)
				t.Logf("%+v: a kept work %.1f times, a listed work %.1f times, an event %.1f times",
					got, kept, allocated, event)
				if kept > limit.kept || allocated > limit.allocated || event > limit.event {
					t.Errorf("want at most %+v times", limit)
				}
			})
		}
	}
}
