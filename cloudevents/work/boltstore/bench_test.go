// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore_test

import (
	"fmt"
	"path/filepath"
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

// BenchmarkLoad measures the creation of a source with works in its store.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("works=%d", n), func(b *testing.B) {
			store, err := boltstore.Open(filepath.Join(b.TempDir(), "works.db"), boltstore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			fill(b, store, n)
			for b.Loop() {
				if _, err := work.NewSource(memory.New().Transport(),
					work.SourceOptions{SourceID: "hub", Store: store}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// fill creates the works of a source in a memory store, and copies them in one transaction.
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
		changes = append(changes, work.Change{Key: key, Value: value})
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	if err := store.Apply(b.Context(), changes); err != nil {
		b.Fatal(err)
	}
}
