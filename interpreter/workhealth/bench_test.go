// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter/workhealth"
)

// large returns a Deployment and ConfigMaps of 1 MiB in total, with the statuses that their agent
// reports.
func large(deploymentStatus string) (manifests, statuses []string) {
	manifests, statuses = []string{deployment}, []string{deploymentStatus}
	for i := range 64 {
		manifests = append(manifests,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d","namespace":"x"},"data":{"a":%q}}`, i,
				strings.Repeat("0123456789abcdef", 1<<10)))
		statuses = append(statuses, "applied")
	}
	return manifests, statuses
}

const (
	halfway   = `{"replicas":1}`
	available = `{"replicas":1,"updatedReplicas":1,"availableReplicas":1}`
)

// BenchmarkWorks measures Works with works of 1 MiB each.
func BenchmarkWorks(b *testing.B) {
	for _, n := range []int{1, 20} {
		b.Run(fmt.Sprintf("works=%d", n), func(b *testing.B) {
			f := newFixture(b)
			manifests, statuses := large(available)
			for i := range n {
				f.put(fmt.Sprintf("w%d", i), manifests, statuses)
			}
			for end := time.Now().Add(30 * time.Second); len(f.tracker.Works()) < n; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					b.Fatal("too few works")
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if len(f.tracker.Works()) != n {
					b.Fatal("too few works")
				}
			}
		})
	}
}

// BenchmarkStatus measures a status update of a work of 1 MiB, including the clientset and the
// informer. One of its 65 objects has changed.
func BenchmarkStatus(b *testing.B) {
	f := newFixture(b)
	changes := make(chan struct{}, 100)
	defer f.tracker.OnChange("c1", func() { changes <- struct{}{} })()
	var works []*workv1.ManifestWork
	for _, status := range []string{halfway, available} {
		manifests, statuses := large(status)
		works = append(works, f.put("w", manifests, statuses))
	}
	i := 0
	next := func() {
		if _, err := f.works.WorkV1().ManifestWorks("c1").Update(b.Context(), works[i%2],
			metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		<-changes
		i++
	}
	for len(f.tracker.Works()) == 0 || f.tracker.Works()[0].Objects[0].Health != workhealth.HealthHealthy {
		<-changes
	}
	for len(changes) > 0 {
		<-changes
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
