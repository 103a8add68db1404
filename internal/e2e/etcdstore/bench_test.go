// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
)

// benchArgs let etcd keep the data of a benchmark.
var benchArgs = []string{
	"--quota-backend-bytes=8589934592", "--auto-compaction-mode=revision", "--auto-compaction-retention=1000",
}

// BenchmarkApplyIf writes batches of records of 1.5 KB with one writer, as a leader does. etcd syncs
// its log to the disk.
func BenchmarkApplyIf(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := startServer(b, benchArgs...).open(etcdstore.Options{})
			write(b, s, leaderOne)
			value := []byte(strings.Repeat("v", 1500))
			batch := make([]work.Change, n)
			written := 0
			b.ReportAllocs()
			for b.Loop() {
				for i := range batch {
					batch[i] = work.Change{Key: fmt.Sprintf("work/cluster%d/%d", i%100, (written+i)%100_000), Value: value}
				}
				if err := s.ApplyIf(b.Context(), leaderOne, batch); err != nil {
					b.Fatal(err)
				}
				written += n
			}
			b.ReportMetric(float64(written)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// fill writes n records of 1.5 KB.
func fill(b *testing.B, s *etcdstore.Store, n int) {
	b.Helper()
	for first := 0; first < n; first += 1000 {
		batch := make([]work.Change, 1000)
		for i := range batch {
			batch[i] = set(fmt.Sprintf("work/cluster%d/%d", (first+i)%100, first+i), strings.Repeat("v", 1500))
		}
		if err := s.Apply(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad reads a whole store.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			s := startServer(b, benchArgs...).open(etcdstore.Options{})
			fill(b, s, n)
			b.ReportAllocs()
			for b.Loop() {
				loaded := 0
				if err := s.Load(b.Context(), func(string, []byte) error {
					loaded++
					return nil
				}); err != nil || loaded != n {
					b.Fatal(loaded, err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkFollowerReceives measures the time from the call of Apply until a follower with a
// connection of its own has the change. The store has 100,000 records. The metric heap-MB is the
// memory of the client's process after the content was read.
func BenchmarkFollowerReceives(b *testing.B) {
	etcd := startServer(b, benchArgs...)
	s := etcd.open(etcdstore.Options{})
	fill(b, s, 100_000)
	received := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- etcd.open(etcdstore.Options{}).Follow(ctx, "", nil, func(work.Batch) error {
			received <- struct{}{}
			return nil
		})
	}()
	began := time.Now()
	<-received
	content := time.Since(began)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	for b.Loop() {
		if err := s.Apply(b.Context(), []work.Change{set("a", strings.Repeat("v", 1500))}); err != nil {
			b.Fatal(err)
		}
		<-received
	}
	b.ReportMetric(content.Seconds()*1000, "content-ms")
	b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MB")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
