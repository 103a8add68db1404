// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
)

// BenchmarkStores compares etcd and PostgreSQL, both with durable commits, with 1 and 16 writers.
// Each transaction has a condition and puts two keys of 500 bytes, like a step of an engine. A
// watch of another client has each event. Its latency is from the start of the transaction to the
// event.
func BenchmarkStores(b *testing.B) {
	for name, start := range map[string]func(testing.TB) servers{
		"etcd": func(t testing.TB) servers {
			return startEtcd(t, 1, func(c *embed.Config) { c.UnsafeNoFsync = false })
		},
		"PostgreSQL": func(t testing.TB) servers {
			server := postgres.Start(t, postgres.Options{Sync: true})
			return database{server, server.Database(t)}
		},
	} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) { benchmarkStore(b, start, writers) })
		}
	}
}

func benchmarkStore(b *testing.B, start func(testing.TB) servers, writers int) {
	servers := start(b)
	s := servers.store(b, "/bench")
	var mu sync.Mutex
	began := map[string]time.Time{}
	var latencies []time.Duration
	var seen atomic.Int64
	watch := servers.store(b, "/bench").Watch(b.Context(), "/watched/", 0)
	go func() {
		for message := range watch {
			for _, e := range message.Events {
				mu.Lock()
				if at, measured := began[string(e.KV.Value[:16])]; measured {
					latencies = append(latencies, time.Since(at))
				}
				mu.Unlock()
				seen.Add(1)
			}
		}
	}()
	// The watch receives the first event: it exists.
	const first = "/watched/first"
	waitFor(b, "the watch", func() bool {
		if _, err := s.Txn(b.Context(), nil, []store.Op{store.Put(first, make([]byte, 16))}); err != nil {
			b.Fatal(err)
		}
		return seen.Load() > 0
	})
	var n atomic.Int64
	payload := make([]byte, 484)
	b.ResetTimer()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				id := fmt.Sprintf("%016d", i)
				mu.Lock()
				began[id] = time.Now()
				mu.Unlock()
				value := append([]byte(id), payload...)
				result, err := s.Txn(b.Context(), []store.Compare{store.Absent("/absent/")}, []store.Op{
					store.Put(fmt.Sprint("/watched/", w), value), store.Put(fmt.Sprint("/other/", i%1000), value),
				})
				if err != nil || !result.Succeeded {
					b.Errorf("%+v, %v", result, err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "txn/s")
	b.StopTimer()
	waitFor(b, "all events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(latencies) == b.N
	})
	slices.Sort(latencies)
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds())/1000, "ms-p50-event")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds())/1000, "ms-p99-event")
}
