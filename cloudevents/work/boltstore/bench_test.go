// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
)

// BenchmarkCreate measures a source with works that are on the disk before Create returns.
// Concurrent writers share transactions.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			store, err := boltstore.Open(filepath.Join(b.TempDir(), "works.db"), boltstore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			source, err := work.NewSource(memory.New().Transport(),
				work.SourceOptions{SourceID: "hub", Store: store, Outbox: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			works := source.Clientset().WorkV1().ManifestWorks("cluster1")
			var next atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("w", next.Add(1))}, Spec: spec()}
					if _, err := works.Create(b.Context(), obj, metav1.CreateOptions{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkLoad measures the creation of a source with works and their statuses in its store, and
// the live heap of a work.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("works=%d", n), func(b *testing.B) {
			store, err := boltstore.Open(filepath.Join(b.TempDir(), "works.db"), boltstore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			fill(b, store, n)
			before := liveHeap()
			var source *work.Source
			for b.Loop() {
				if source, err = work.NewSource(memory.New().Transport(),
					work.SourceOptions{SourceID: "hub", Store: store}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(liveHeap()-before)/float64(n), "heap-B/work")
			runtime.KeepAlive(source)
		})
	}
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // a second cycle frees what the first has finalized
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// reported is the status of a work with one applied manifest.
const reported = `"status":{"conditions":[{"type":"Applied","status":"True","observedGeneration":1,` +
	`"lastTransitionTime":"2024-05-06T07:08:09Z","reason":"AppliedManifestWorkComplete",` +
	`"message":"Apply manifest work complete"},{"type":"Available","status":"True","observedGeneration":1,` +
	`"lastTransitionTime":"2024-05-06T07:08:09Z","reason":"ResourcesAvailable",` +
	`"message":"All resources are available"}],` +
	`"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0,"group":"","version":"v1","kind":"ConfigMap",` +
	`"resource":"configmaps","name":"a","namespace":"default"},"statusFeedback":{},"conditions":[{"type":"Applied",` +
	`"status":"True","lastTransitionTime":"2024-05-06T07:08:09Z","reason":"AppliedManifestComplete",` +
	`"message":"Apply manifest complete"}]}]}}`

// fill creates the works of a source in a memory store, and copies them with statuses in one
// transaction.
func fill(b *testing.B, store *boltstore.Store, n int) {
	b.Helper()
	kept := work.NewMemoryStore()
	source, err := work.NewSource(memory.New().Transport(),
		work.SourceOptions{SourceID: "hub", Store: kept, Outbox: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("w", i)}, Spec: spec()}
		if _, err := source.Clientset().WorkV1().ManifestWorks("cluster1").Create(b.Context(), obj,
			metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	var changes []work.Change
	if err := kept.Load(b.Context(), func(key string, value []byte) error {
		value = bytes.Replace(value, []byte(`"status":{"resourceStatus":{}}`), []byte(reported), 1)
		changes = append(changes, work.Change{Key: key, Value: value})
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	if err := store.Apply(b.Context(), changes); err != nil {
		b.Fatal(err)
	}
}
