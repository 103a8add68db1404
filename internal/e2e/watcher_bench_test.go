// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// BenchmarkWatcherCost measures a number of watched objects as [measureWatches] does. Each round
// changes an object.
func BenchmarkWatcherCost(b *testing.B) {
	for _, c := range []struct {
		name          string
		objects, size int
		options       dynamicwatcher.Options
	}{
		{"objects=100", 100, 0, dynamicwatcher.Options{}},
		{"objects=100,size=500000", 100, 500_000, dynamicwatcher.Options{}},
		{"objects=1000", many, 0, dynamicwatcher.Options{}},
		{"objects=1000,consolidated", many, 0, consolidated},
		{"objects=10000", 10 * many, 0, dynamicwatcher.Options{}},
		{"objects=10000,consolidated", 10 * many, 0, consolidated},
	} {
		b.Run(c.name, func(b *testing.B) {
			cost := measureWatches(b, c.objects, c.size, c.options, b.Loop)
			b.ReportMetric(cost.established.Seconds(), "s-to-establish")
			b.ReportMetric(float64(cost.requests), "requests")
			b.ReportMetric(float64(cost.connections), "connections")
			b.ReportMetric(cost.heap, "heap-B/watch")
			b.ReportMetric(cost.stack, "stack-B/watch")
			b.ReportMetric(cost.goroutines, "goroutines/watch")
			b.ReportMetric(cost.eventBytes, "B/event")
			for _, p := range []int{50, 90, 99, 100} {
				b.ReportMetric(float64(cost.percentile(p).Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
			}
		})
	}
}

// watchCost is the cost of a number of watched objects, and of the events of changed objects.
type watchCost struct {
	established             time.Duration
	requests, connections   int64
	heap, stack, goroutines float64 // of each object
	eventBytes              float64 // of response bodies
	latencies               []time.Duration
}

// percentile returns a percentile of the times from before a write to the start of its reconcile.
func (c *watchCost) percentile(p int) time.Duration {
	return c.latencies[p*(len(c.latencies)-1)/100]
}

// measureWatches watches a number of secrets for up to 100 watchers, which share the secrets in
// turn. If the options have Consolidate, it waits until one watch has replaced all. While more
// returns true, it then changes a secret and waits for the reconcile. size is the size of a secret
// in bytes, or 0 for a small one.
func measureWatches(
	t testing.TB, objects, size int, options dynamicwatcher.Options, more func() bool,
) *watchCost {
	t.Helper()
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("cost")
	createSecrets(client, ns, objects)
	if size > 0 {
		for i := range objects {
			client.setSecret(ns, fmt.Sprint("s", i), strings.Repeat("x", size))
		}
	}
	counted := &traffic{}
	config := cluster.Config()
	config.Wrap(counted.wrap)
	reconciled := make(chan string)
	options.DisableInitialReconcile = true
	report := func(ctx context.Context, _ dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
		for _, trigger := range dynamicwatcher.TriggersFrom(ctx) {
			select {
			case reconciled <- trigger.Name:
			case <-ctx.Done():
			}
		}
		return reconcile.Result{}, nil
	}
	w := startWatcher(t, config, options, report)

	cost := &watchCost{}
	before, begin := currentUsage(), time.Now()
	watchers := min(objects, 100)
	for i := range objects {
		watcher := policyID(ns, fmt.Sprint("p", i%watchers))
		if err := w.AddWatcher(watcher, secretID(ns, fmt.Sprint("s", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range watchers {
		w.synced(policyID(ns, fmt.Sprint("p", i)))
	}
	cost.established = time.Since(begin)
	cost.requests, cost.connections = counted.requests.Load(), w.dials.Load()
	if options.Consolidate != nil {
		w.eventuallyShared(client, objects, 0)
	}
	// The API server sends each watch a bookmark on its next tick, within 1.25 s. The bookmark is no
	// part of an event.
	time.Sleep(1500 * time.Millisecond)
	after, n := currentUsage(), float64(objects)
	cost.heap, cost.stack = float64(after.heap-before.heap)/n, float64(after.stack-before.stack)/n
	cost.goroutines = float64(after.goroutines-before.goroutines) / n

	received := counted.bytes.Load()
	secret := &corev1.Secret{Data: map[string][]byte{"value": bytes.Repeat([]byte("x"), max(size, 1))}}
	for i := 0; more(); i++ {
		secret.Name = fmt.Sprint("s", i*7919%objects) // spread over all objects
		secret.StringData = map[string]string{"round": fmt.Sprint(i)}
		cost.latencies = append(cost.latencies, client.latency(secret, ns, reconciled))
	}
	slices.Sort(cost.latencies)
	cost.eventBytes = float64(counted.bytes.Load()-received) / float64(len(cost.latencies))
	return cost
}

// latency updates a secret, and returns the time until its name is reconciled.
func (c *writer) latency(secret *corev1.Secret, namespace string, reconciled <-chan string) time.Duration {
	c.t.Helper()
	begin := time.Now()
	if _, err := c.CoreV1().Secrets(namespace).Update(c.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	for {
		select {
		case name := <-reconciled:
			if name == secret.Name {
				return time.Since(begin)
			}
		case <-time.After(watcherLimit):
			c.t.Fatalf("no reconcile of %s", secret.Name)
		}
	}
}

// usage is the live memory, in bytes, and the number of goroutines of the process.
type usage struct{ heap, stack, goroutines int64 }

// currentUsage collects garbage, often enough to shrink stacks and to free objects with finalizers.
func currentUsage() usage {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}

// BenchmarkWatcherConnections starts many watches, in turn with the watcher's connection pool, with
// one HTTP/2 transport, and with one HTTP client of client-go. It reports the median of each. The
// memory is that of the watches and their connections.
//
//	go test . -run '^$' -bench WatcherConnections -benchtime 20x
func BenchmarkWatcherConnections(b *testing.B) {
	cluster := kube.Shared(b)
	client := newWriter(b, cluster)
	for _, n := range []int{100, many, 5 * many} {
		ns := client.namespace(fmt.Sprint("connections", n))
		createSecrets(client, ns, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			figures := map[string][]float64{}
			measure := func(name string, options dynamicwatcher.Options, dials *atomic.Int64) {
				before := currentUsage()
				begin := time.Now()
				w := startWatcher(b, cluster.Config(), options, nil)
				watchMany(w, ns, n)
				took := time.Since(begin)
				after := currentUsage()
				dialed := w.dials.Load()
				if dials != nil {
					dialed = dials.Load()
				}
				w.stop()
				figures[name+"-ms"] = append(figures[name+"-ms"], float64(took.Microseconds())/1000)
				figures[name+"-B/watch"] = append(figures[name+"-B/watch"], float64(after.heap-before.heap+after.stack-before.stack)/float64(n))
				figures[name+"-connections"] = append(figures[name+"-connections"], float64(dialed))
			}
			variants := []func(){
				func() { measure("pool", dynamicwatcher.Options{}, nil) },
				func() {
					dials := &atomic.Int64{}
					transport := http2Transport(b, cluster.Config(), dials)
					defer transport.CloseIdleConnections() //nolint:staticcheck // what the pool is compared with
					measure("http2", dynamicwatcher.Options{HTTPClient: &http.Client{Transport: transport}}, dials)
				},
				func() {
					dials := &atomic.Int64{}
					config := cluster.Config()
					config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						dials.Add(1)
						return (&net.Dialer{}).DialContext(ctx, network, address)
					}
					c, err := rest.HTTPClientFor(config)
					if err != nil {
						b.Fatal(err)
					}
					defer utilnet.CloseIdleConnectionsFor(c.Transport)
					measure("client-go", dynamicwatcher.Options{HTTPClient: c}, dials)
				},
			}
			for i := 0; b.Loop(); i++ {
				for j := range variants {
					variants[(i+j)%len(variants)]()
				}
			}
			for name, all := range figures {
				slices.Sort(all)
				b.ReportMetric(all[len(all)/2], name)
			}
		})
	}
}

// http2Transport returns a transport with its own connections, and counts them.
func http2Transport(b *testing.B, config *rest.Config, dials *atomic.Int64) *http2.Transport { //nolint:staticcheck // what the pool is compared with
	b.Helper()
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		b.Fatal(err)
	}
	return &http2.Transport{ //nolint:staticcheck // what the pool is compared with
		TLSClientConfig: settings, //nolint:staticcheck // what the pool is compared with
		DialTLSContext: func(ctx context.Context, network, address string, settings *tls.Config) (net.Conn, error) { //nolint:staticcheck // what the pool is compared with
			dials.Add(1)
			return (&tls.Dialer{Config: settings}).DialContext(ctx, network, address)
		},
	}
}
