// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// benchEngine starts an engine on a store in memory.
func benchEngine(b *testing.B) (*rsync.Engine, *memstore.Store, *fake.Clusters) {
	b.Helper()
	memory, clusters := memstore.New(memstore.Options{History: 1000}), fake.New()
	engine, err := rsync.New(memory, clusters, rsync.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return engine, memory, clusters
}

// BenchmarkInstantiate measures the life of a context, from Create to Delete, by its clusters and
// the resources on each cluster.
func BenchmarkInstantiate(b *testing.B) {
	for _, size := range []struct{ clusters, resources int }{{1, 1}, {1, 100}, {10, 10}, {100, 10}} {
		b.Run(fmt.Sprintf("clusters=%d/resources=%d", size.clusters, size.resources), func(b *testing.B) {
			engine, memory, clusters := benchEngine(b)
			text := ""
			for c := range size.clusters {
				text += fmt.Sprintf("web@c%d", c)
				for r := range size.resources {
					text += fmt.Sprintf(" x%d=1", r)
				}
				text += ";"
			}
			c := parse(b, "id", text)
			b.ReportAllocs()
			txns := 0
			for b.Loop() {
				if err := engine.Create(b.Context(), c); err != nil {
					b.Fatal(err)
				}
				before := memory.Counts().Txns
				run(b, engine, engine.Instantiate)
				txns += memory.Counts().Txns - before
				run(b, engine, engine.Terminate)
				if err := engine.Delete(b.Context(), "id"); err != nil {
					b.Fatal(err)
				}
				for i := range size.clusters {
					clusters.Cluster("edge", fmt.Sprint("c", i)).Forget()
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "contexts/s")
			b.ReportMetric(float64(txns)/float64(b.N), "txns/event")
		})
	}
}

func run(
	b *testing.B, engine *rsync.Engine, queue func(context.Context, string, ...rsync.CallOption) (rsync.EventRef, error),
) {
	b.Helper()
	ref, err := queue(b.Context(), "id")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := engine.Wait(b.Context(), ref); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStop measures the time from Stop to the end of an event that waits for a cluster, while
// other contexts wait too.
func BenchmarkStop(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprintf("waiting=%d", others), func(b *testing.B) {
			engine, _, clusters := benchEngine(b)
			clusters.Cluster("edge", "c").SetMode(fake.ModeUnreachable)
			for i := range others + 1 {
				id := fmt.Sprint("id", i)
				if err := engine.Create(b.Context(), parse(b, id, fmt.Sprintf("web@c x%d=1", i))); err != nil {
					b.Fatal(err)
				}
				if i > 0 {
					if _, err := engine.Instantiate(b.Context(), id); err != nil {
						b.Fatal(err)
					}
				}
			}
			var total time.Duration
			for b.Loop() {
				ref, err := engine.Instantiate(b.Context(), "id0")
				if err != nil {
					b.Fatal(err)
				}
				for c, err := range engine.Watch(b.Context(), "id0", 0) {
					if err != nil {
						b.Fatal(err)
					}
					if c.Cluster != nil && c.Cluster.Seq == ref.Seq {
						break
					}
				}
				began := time.Now()
				if err := engine.Stop(b.Context(), "id0"); err != nil {
					b.Fatal(err)
				}
				if _, err := engine.Wait(b.Context(), ref); err == nil {
					b.Fatal("it is done")
				}
				total += time.Since(began)
				if err := engine.ClearStop(b.Context(), "id0"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/stop")
		})
	}
}
