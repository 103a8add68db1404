// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// BenchmarkWatcherEstablish starts watches on a number of objects, with client-go's default limits.
// The name of the sub-benchmark is the number.
func BenchmarkWatcherEstablish(b *testing.B) {
	cluster := kube.Shared(b)
	client := newWriter(b, cluster)
	for _, n := range []int{1, 100, 1000} {
		ns := client.namespace(fmt.Sprint("n", n))
		createSecrets(client, ns, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			config := cluster.Config()
			config.QPS, config.Burst = 0, 0
			for b.Loop() {
				w := startWatcher(b, config, dynamicwatcher.Options{}, nil)
				watchMany(w, ns, n)
				b.ReportMetric(float64(w.dials.Load()), "connections")
				w.stop()
			}
		})
	}
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
				before := heapAndStacks()
				begin := time.Now()
				w := startWatcher(b, cluster.Config(), options, nil)
				watchMany(w, ns, n)
				took := time.Since(begin)
				after := heapAndStacks()
				dialed := w.dials.Load()
				if dials != nil {
					dialed = dials.Load()
				}
				w.stop()
				figures[name+"-ms"] = append(figures[name+"-ms"], float64(took.Microseconds())/1000)
				figures[name+"-B/watch"] = append(figures[name+"-B/watch"], float64(after-before)/float64(n))
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

func heapAndStacks() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // far below the limit
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

// BenchmarkWatcherEvent changes one of many watched objects, and waits for the reconcile.
func BenchmarkWatcherEvent(b *testing.B) {
	cluster := kube.Shared(b)
	client := newWriter(b, cluster)
	ns := client.namespace("event")
	createSecrets(client, ns, many)
	for _, n := range []int{1, many} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := startWatcher(b, cluster.Config(), dynamicwatcher.Options{DisableInitialReconcile: true}, nil)
			watchMany(w, ns, n)
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s0"}}
			for i := 0; b.Loop(); i++ {
				s.StringData = map[string]string{"value": fmt.Sprint(b.Name(), i, b.N)}
				if _, err := client.CoreV1().Secrets(ns).Update(b.Context(), s, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
				w.eventuallyCount(policyID(ns, "p0"), i+1)
			}
		})
	}
}
