// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// benched is a cache of works with reports.
type benched struct {
	cache   *cache.Cache[*record]
	records []*record
}

func benchStore(b *testing.B, works int) *benched {
	s := &benched{cache.New[*record](clock.RealClock{}, false, limits), make([]*record, works)}
	for i := range s.records {
		s.records[i] = &record{}
		s.cache.Put(s.records[i], reported(fmt.Sprint("work", i)))
	}
	b.Cleanup(func() {
		s.cache.Lock()
		defer s.cache.Unlock()
		s.cache.Close()
	})
	return s
}

// put writes a work without changes.
func (s *benched) put(i int) {
	obj := *s.records[i].Object
	s.cache.Lock()
	defer s.cache.Unlock()
	s.cache.Put(s.records[i], &obj)
}

// watch starts a watch at the current version, and reads it until it ends.
func (s *benched) watch(b *testing.B, f cache.Filter) {
	s.cache.Lock()
	defer s.cache.Unlock()
	w, err := s.cache.Watch(b.Context(), cache.WatchOptions{Filter: f, Resume: true, Since: s.cache.LastVersion()})
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for range w.ResultChan() {
		}
	}()
}

// BenchmarkPut measures one write to a cache of 10,000 works: a report that replaces the status, or
// a new spec.
func BenchmarkPut(b *testing.B) {
	for _, change := range []string{"status", "spec"} {
		b.Run(change, func(b *testing.B) {
			s := benchStore(b, 10_000)
			conditions := make([][]metav1.Condition, len(s.records))
			manifests := make([][]workv1.Manifest, len(s.records))
			for i := range s.records {
				conditions[i] = reported("").Status.Conditions
				manifests[i] = reported("").Spec.Workload.Manifests
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				j := i * 7919 % len(s.records)
				obj := *s.records[j].Object
				if change == "status" {
					obj.Status.Conditions = conditions[j]
				} else {
					obj.Spec.Workload.Manifests = manifests[j]
				}
				s.cache.Lock()
				s.cache.Put(s.records[j], &obj)
				s.cache.Unlock()
			}
		})
	}
}

// reported returns a work with three manifests and a report of an agent.
func reported(name string) *workv1.ManifestWork {
	obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, Labels: map[string]string{"app": "shop", "tier": "front"},
	}}
	for i := range 3 {
		obj.Spec.Workload.Manifests = append(obj.Spec.Workload.Manifests, workv1.Manifest{
			RawExtension: runtime.RawExtension{Raw: []byte(strings.Repeat("v", 300+i))},
		})
		obj.Status.ResourceStatus.Manifests = append(obj.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			Conditions: []metav1.Condition{{Type: "Applied", Reason: "AppliedManifestComplete",
				Message: "Apply manifest complete"}},
		})
	}
	obj.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Reason: "AppliedManifestWorkComplete", Message: "Apply manifest work complete"},
		{Type: workv1.WorkAvailable, Reason: "ResourcesAvailable", Message: "All resources are available"},
	}
	return obj
}
