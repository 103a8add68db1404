// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// BenchmarkAppliedWorkPrune prunes one deleted object on a cluster with other AppliedWorks of 200
// objects each. The name of the sub-benchmark is their number. One of them changes before each
// prune.
func BenchmarkAppliedWorkPrune(b *testing.B) {
	config := kube.Start(b, kube.Options{}).Config()
	config.QPS = -1
	if err := v1alpha1.EnsureCRD(b.Context(),
		dynamic.NewForConfigOrDie(config).Resource(v1alpha1.CRDResource)); err != nil {
		b.Fatal(err)
	}
	tracker := trackerOf(b, config, true)
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var slots sync.WaitGroup
			for slot := range 8 {
				slots.Go(func() {
					for i := slot; i < n; i += 8 {
						recordMany(b, tracker, fmt.Sprintf("other-%04d", i), 0, 200)
					}
				})
			}
			slots.Wait()
			b.Run("objects", func(b *testing.B) { pruneAmong(b, rest.CopyConfig(config), false) })
			b.Run("metadata", func(b *testing.B) { pruneAmong(b, rest.CopyConfig(config), true) })
		})
	}
}

func trackerOf(b *testing.B, config *rest.Config, slim bool) *appliedwork.Tracker {
	o := appliedwork.Options{Client: dynamic.NewForConfigOrDie(config),
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(config)}
	if slim {
		o.Metadata = metadata.NewForConfigOrDie(config)
	}
	tracker, err := appliedwork.NewTracker(o)
	if err != nil {
		b.Fatal(err)
	}
	return tracker
}

// recordMany records ConfigMaps that do not exist, numbered from first, and returns their
// AppliedWork.
func recordMany(b *testing.B, tracker *appliedwork.Tracker, name string, first, n int) *v1alpha1.AppliedWork {
	work, err := tracker.Ensure(b.Context(), name, v1alpha1.AppliedWorkSpec{WorkName: name})
	entries := make([]v1alpha1.AppliedResourceMeta, n)
	for i := range entries {
		entries[i].ResourceIdentifier = v1alpha1.ResourceIdentifier{
			Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: name,
			Name: fmt.Sprintf("settings-%05d", first+i),
		}
		entries[i].UID = "4a0fb4c8-6f43-4a3c-9b8e-000000000000"
	}
	if err == nil {
		err = tracker.RecordApplied(b.Context(), work, entries...)
	}
	if err != nil {
		b.Error(err)
	}
	return work
}

// pruneAmong prunes as a process that has pruned before. The traffic of its records is not
// measured.
func pruneAmong(b *testing.B, config *rest.Config, slim bool) {
	m := &traffic{}
	recorder := trackerOf(b, rest.CopyConfig(config), slim)
	config.Wrap(m.wrap)
	pruner := appliedwork.NewPruner(trackerOf(b, config, slim))
	prune := func(n int) {
		b.StopTimer()
		recordMany(b, recorder, "other-0000", 1000+n, 1)
		work := recordMany(b, recorder, "pruned", 0, 1)
		b.StartTimer()
		changes, err := pruner.Prune(b.Context(), work, nil, appliedwork.PruneOptions{AllowEmpty: true})
		if err != nil || changes.Count(appliedwork.ActionDeleted) != 1 {
			b.Fatal(changes, err)
		}
	}
	prune(0)
	m.requests.Store(0)
	m.bytes.Store(0)
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		prune(n + 1)
	}
	b.ReportMetric(float64(m.requests.Load())/float64(b.N), "requests/op")
	b.ReportMetric(float64(m.bytes.Load())/float64(b.N)/1024, "received-KiB/op")
}
