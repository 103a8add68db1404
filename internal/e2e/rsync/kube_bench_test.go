// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// counted counts requests.
type counted struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.RoundTrip(r)
}

// kubeBatch returns a batch of n ConfigMaps in a new namespace.
func kubeBatch(b *testing.B, client *kubernetes.Clientset, n int) connector.Batch {
	b.Helper()
	ns, err := client.CoreV1().Namespaces().Create(b.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	batch := connector.Batch{AppContextID: "bench", App: "app", Cluster: kube1}
	for i := range n {
		text := strings.ReplaceAll(manifestOf(fmt.Sprint("m", i), "value"), "NS", ns.Name)
		object, err := appcontext.ParseObject([]byte(text))
		if err != nil {
			b.Fatal(err)
		}
		batch.Resources = append(batch.Resources, appcontext.Resource{Object: object, Manifest: []byte(text)})
	}
	return batch
}

// BenchmarkKube measures the calls of an event on a real API server: the first apply of objects, a
// second apply without changes, a read of all objects, and their deletion. Requests have no rate
// limit, and as many run concurrently as the connector makes.
func BenchmarkKube(b *testing.B) {
	var requests atomic.Int64
	config := kube.Shared(b).Config()
	client := kubernetes.NewForConfigOrDie(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, &requests} })
	connectors, err := kubeconnector.New(map[string]kubeconnector.Cluster{"*": {Config: config}},
		kubeconnector.Options{QPS: 1e6, Burst: 1e6})
	if err != nil {
		b.Fatal(err)
	}
	c, err := connectors.Connector(b.Context(), kube1.Provider, kube1.Name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	get := func(ctx context.Context, batch connector.Batch) error {
		_, err := c.Get(ctx, batch)
		return err
	}
	for _, n := range []int{10, 100, 1000} {
		for _, verb := range []struct {
			name  string
			first bool // the objects do not exist before
			do    func(context.Context, connector.Batch) error
		}{{"apply", true, c.Apply}, {"again", false, c.Apply}, {"get", false, get}, {"delete", false, c.Delete}} {
			b.Run(fmt.Sprintf("%s/%d", verb.name, n), func(b *testing.B) {
				b.ReportAllocs()
				var asked int64
				for b.Loop() {
					b.StopTimer()
					batch := kubeBatch(b, client, n)
					if !verb.first {
						if err := c.Apply(b.Context(), batch); err != nil {
							b.Fatal(err)
						}
					}
					before := requests.Load()
					b.StartTimer()
					if err := verb.do(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					asked += requests.Load() - before
				}
				objects := float64(b.N) * float64(n)
				b.ReportMetric(float64(asked)/objects, "requests/object")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/objects, "µs/object")
			})
		}
	}
}

// BenchmarkKubeMemory opens connectors to many clusters, uses each once, and reports the heap that
// each takes.
func BenchmarkKubeMemory(b *testing.B) {
	const clusters = 100
	config := kube.Shared(b).Config()
	batch := kubeBatch(b, kubernetes.NewForConfigOrDie(config), 10)
	connectors, err := kubeconnector.New(
		map[string]kubeconnector.Cluster{"*": {Load: func(context.Context, appcontext.ClusterID) (*rest.Config, error) {
			return config, nil
		}}}, kubeconnector.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var taken, routines int
	for b.Loop() {
		before, began := heap(), runtime.NumGoroutine()
		open := make([]connector.Connector, clusters)
		for i := range open {
			if open[i], err = connectors.Connector(b.Context(), "edge", fmt.Sprint("c", i)); err == nil {
				err = open[i].Apply(b.Context(), batch)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		taken += heap() - before
		routines += runtime.NumGoroutine() - began
		for _, c := range open {
			_ = c.Close()
		}
	}
	b.ReportMetric(float64(taken)/float64(b.N)/clusters/1024, "KiB/cluster")
	b.ReportMetric(float64(routines)/float64(b.N)/clusters, "goroutines/cluster")
}

// heap returns the size of the live heap in bytes.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
