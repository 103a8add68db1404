// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stolostron/kubernetes-dependency-watches/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var watches = flag.Int("watches", 20, "how many objects are watched")

const (
	namespace   = "default"
	perWatcher  = 10
	large       = 500_000 // bytes of an object
	largeEvents = 20
)

// reconciler sends the name of each watcher that it is called for.
type reconciler chan string

func (r reconciler) Reconcile(ctx context.Context, watcher client.ObjectIdentifier) (reconcile.Result, error) {
	select {
	case r <- watcher.Name:
	case <-ctx.Done():
	}
	return reconcile.Result{}, nil
}

// TestDependencyWatches measures kubernetes-dependency-watches as BenchmarkWatcherCost in
// internal/e2e measures package dynamicwatcher: ten objects for each watcher, memory after garbage
// collection, and bytes of the response bodies. That project obeys the rate limits of its client, and package
// dynamicwatcher does not. It therefore runs with client-go's default limits, and without limits.
func TestDependencyWatches(t *testing.T) {
	t.Run("default limits", func(t *testing.T) { dependencyWatches(t, 0) })
	t.Run("no limits", func(t *testing.T) { dependencyWatches(t, -1) })
}

func dependencyWatches(t *testing.T, qps float32) {
	server := &envtest.Environment{}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	own, err := kubernetes.NewForConfig(unlimited)
	if err != nil {
		t.Fatal(err)
	}
	for i := range *watches {
		if _, err := own.CoreV1().ConfigMaps(namespace).Create(t.Context(), object(fmt.Sprintf("object-%d", i), 1000, 0),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var received atomic.Int64
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = qps, 0 // envtest sets its own limits
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next, &received} })
	reconciled := make(reconciler)
	watcher, err := client.New(config, reconciled, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Start(ctx) }()
	var drained atomic.Bool // until then, the start causes the reconciles
	go func() {
		for !drained.Load() {
			select {
			case <-reconciled:
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		drained.Store(true)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-watcher.Started()

	before, begin := live(), time.Now()
	for i := 0; i < *watches; i += perWatcher {
		var objects []client.ObjectIdentifier
		for j := i; j < min(i+perWatcher, *watches); j++ {
			objects = append(objects, configMap(fmt.Sprintf("object-%d", j)))
		}
		if err := watcher.AddOrUpdateWatcher(configMap(fmt.Sprintf("watcher-%d", i/perWatcher)), objects...); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begin)
	if n := watcher.GetWatchCount(); int(n) != *watches {
		t.Fatalf("%d watches", n)
	}
	time.Sleep(2 * time.Second) // for the remaining work of the start
	after, n := live(), float64(*watches)
	t.Logf("%d watches in %.2f s; each %.1f KiB, %.2f goroutines", *watches, took.Seconds(),
		float64(after.bytes-before.bytes)/n/1024, float64(after.goroutines-before.goroutines)/n)

	if _, err := own.CoreV1().ConfigMaps(namespace).Create(t.Context(), object("large", large, 0),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := watcher.AddOrUpdateWatcher(configMap("watcher-large"), configMap("large")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	drained.Store(true)
	time.Sleep(200 * time.Millisecond)
	bytes := received.Load()
	for i := range largeEvents {
		if _, err := own.CoreV1().ConfigMaps(namespace).Update(t.Context(), object("large", large, i+1),
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case name := <-reconciled:
			if name != "watcher-large" {
				t.Fatalf("a reconcile for %s", name)
			}
		case <-time.After(time.Minute):
			t.Fatal("no reconcile")
		}
	}
	t.Logf("an event of an object of %d bytes: %d bytes", large, (received.Load()-bytes)/largeEvents)
}

func configMap(name string) client.ObjectIdentifier {
	return client.ObjectIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

func object(name string, size, generation int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"generation": fmt.Sprint(generation), "filling": strings.Repeat("x", size)},
	}
}

// counter counts the bytes of response bodies.
type counter struct {
	next     http.RoundTripper
	received *atomic.Int64
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil {
		response.Body = &body{response.Body, c.received}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	received *atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.received.Add(int64(n))
	return n, err
}

// memory is the memory in use and the number of goroutines of the process.
type memory struct{ bytes, goroutines int64 }

// live collects garbage repeatedly, so stacks shrink and objects with finalizers are freed. It then
// returns the current values.
func live() memory {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{int64(m.HeapAlloc + m.StackInuse), int64(runtime.NumGoroutine())} //nolint:gosec // far below the limit
}
