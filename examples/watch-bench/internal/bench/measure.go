// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Result has the measurements. Bytes are those of response bodies, without the overhead of TLS and
// HTTP.
type Result struct {
	Options
	EstablishSeconds   float64
	Watches            int
	Consolidated       int // objects that share a watch
	Requests           int64
	Connections        int64
	HeapPerWatch       float64 // bytes, as StackPerWatch
	StackPerWatch      float64
	GoroutinesPerWatch float64
	BytesPerEvent      float64
	Latency            Latency
}

// Latency has percentiles of the time from before a write to the start of the reconcile, in
// milliseconds.
type Latency struct{ P50, P90, P99, Max float64 }

// Text returns the result as text.
func (r *Result) Text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s "+format+"\n", append([]any{name}, args...)...)
	}
	row("watch-bench", "%d objects of %d bytes, %d watchers", r.Objects, r.Size, r.Watchers)
	row("establish", "%d watches in %.2f s: %d requests, %d connections", r.Watches, r.EstablishSeconds, r.Requests,
		r.Connections)
	if r.Consolidate {
		row("shared", "%d objects share a watch on the namespace", r.Consolidated)
	}
	row("per watch", "%.1f KiB of heap, %.1f KiB of stack, %.2f goroutines", r.HeapPerWatch/1024, r.StackPerWatch/1024,
		r.GoroutinesPerWatch)
	row("per event", "%.0f bytes", r.BytesPerEvent)
	row("latency", "p50 %.2f ms   p90 %.2f ms   p99 %.2f ms   max %.2f ms (write to reconcile, %d updates)",
		r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.Max, r.Updates)
	return b.String()
}

func percentiles(d []time.Duration) Latency {
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1))].Microseconds()) / 1000 }
	return Latency{P50: at(.5), P90: at(.9), P99: at(.99), Max: at(1)}
}

// memory has the live memory and the goroutines of the process.
type memory struct{ heap, stack, goroutines int64 }

// live collects garbage, often enough to shrink stacks and to free objects with finalizers.
func live() memory {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heap, stack := int64(m.HeapAlloc), int64(m.StackInuse) //nolint:gosec // far below the limit
	return memory{heap, stack, int64(runtime.NumGoroutine())}
}

// traffic counts requests, connections and bytes.
type traffic struct{ requests, dials, bytes atomic.Int64 }

// measure returns a configuration that counts its traffic.
func (t *traffic) measure(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		t.dials.Add(1)
		return dial(ctx, network, address)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{t, next} })
	return config
}

type counter struct {
	traffic *traffic
	next    http.RoundTripper
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.traffic.requests.Add(1)
	response, err := c.next.RoundTrip(r)
	if err == nil {
		response.Body = &body{response.Body, &c.traffic.bytes}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}
