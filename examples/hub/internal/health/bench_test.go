// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/status"
	"github.com/spokewire/sdk-go/rsync/connector"
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
					b.Fatal("there are less works")
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if len(f.tracker.Works()) != n {
					b.Fatal("there are less works")
				}
			}
		})
	}
}

// BenchmarkStatus measures a status update of a work of 1 MiB, including the clientset and the
// informer. One of its 65 objects has changed.
func BenchmarkStatus(b *testing.B) {
	f := newFixture(b)
	told := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- f.tracker.Watching("c1", &watched{}).(connector.StatusWatcher).WatchStatus(ctx,
			func() { told <- struct{}{} })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
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
		<-told
		i++
	}
	for len(f.tracker.Works()) == 0 || f.tracker.Works()[0].Objects[0].Health != status.Healthy {
		<-told
	}
	for len(told) > 0 {
		<-told
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
