// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package e2e_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestWatcherStopSpeed: many watches end immediately, and so does a watch that many objects share.
func TestWatcherStopSpeed(t *testing.T) {
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("stop")
	createSecrets(client, ns, many)
	for name, options := range map[string]dynamicwatcher.Options{"single": {}, "shared": consolidated} {
		t.Run(name, func(t *testing.T) {
			w := startWatcher(t, cluster.Config(), options, nil)
			watchMany(w, ns, many)
			w.settled(many)
			if name == "shared" {
				w.eventuallyShared(client, many, 0)
			}
			if took := w.stop(); took > 300*time.Millisecond {
				t.Errorf("the end of %d watched objects took %v", many, took)
			}
		})
	}
}

// TestWatcherHangingRequestSpeed: during a request that never ends, watches start and end as fast
// as without it.
func TestWatcherHangingRequestSpeed(t *testing.T) {
	p99, end := besideHangingRequest(t)
	if p99 > 30*time.Millisecond {
		t.Errorf("p99 %v", p99)
	}
	if end > 300*time.Millisecond {
		t.Errorf("the end took %v", end)
	}
}

// TestWatcherCostSpeed limits the cost of a watch, and of an event.
func TestWatcherCostSpeed(t *testing.T) {
	updates := 0
	cost := measureWatches(t, many, 0, dynamicwatcher.Options{}, func() bool { updates++; return updates <= 50 })
	t.Logf("%d watches in %v; each %.0f bytes of heap, %.0f of stack; reconciled after p50 %v, p99 %v", many,
		cost.established, cost.heap, cost.stack, cost.percentile(50), cost.percentile(99))
	// one request is for the kind
	if cost.requests != many+1 || cost.connections > mostDials || cost.established <= 0 {
		t.Errorf("%d requests, %d connections in %v", cost.requests, cost.connections, cost.established)
	}
	if cost.goroutines < 1 || cost.goroutines > 2.5 || cost.heap < 1000 || cost.stack < 1000 {
		t.Errorf("a watch has %v goroutines, %v bytes of heap and %v of stack", cost.goroutines, cost.heap, cost.stack)
	}
	if cost.eventBytes > 400 {
		t.Errorf("an event has %v bytes", cost.eventBytes)
	}
}

// TestWatcherMemorySpeed measures the total memory of an object that shares a watch. On a busy
// machine many objects have their own watch first, and Go keeps some of its memory.
func TestWatcherMemorySpeed(t *testing.T) {
	const n, goal = 3000, 1024
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	ns := client.namespace("memory")
	createSecrets(client, ns, n)
	w := startWatcher(t, cluster.Config(), consolidated, nil)
	names := make([]string, n) // the user owns these strings
	for i := range n {
		names[i] = strings.Clone(fmt.Sprint("s", i))
	}
	before := currentUsage()
	begin := time.Now()
	p := policyID(ns, "p")
	for _, name := range names {
		if err := w.AddWatcher(p, secretID(ns, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.synced(p)
	established := time.Since(begin)
	w.eventuallyShared(client, n, 0)
	var each int64
	var after usage
	// until idle connections are closed, and the memory of other tests in this process is freed
	for end := time.Now().Add(watcherLimit); ; time.Sleep(time.Second) {
		after = currentUsage()
		each = (after.heap - before.heap + after.stack - before.stack) / n
		if each <= goal || time.Now().After(end) {
			break
		}
	}
	t.Logf("%d objects in %v, %d bytes each, %d goroutines in all, %d connections of %d are open", n, established, each,
		after.goroutines-before.goroutines, w.open.Load(), w.dials.Load())
	if each > goal {
		t.Errorf("%d bytes for each object, not %d", each, goal)
	}
	runtime.KeepAlive(names)
}
