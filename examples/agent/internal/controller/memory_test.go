// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
)

// counting is a cluster on which large works take a minute. It measures the memory of the works
// that are served concurrently.
type counting struct {
	controller.Cluster
	mu              sync.Mutex
	bytes, works    int
	most, mostWorks int
}

func (c *counting) Apply(ctx context.Context, w *workv1.ManifestWork, keep func(*manifest.Manifest) bool) spoke.Result {
	size := manifest.Memory(w)
	c.mu.Lock()
	c.bytes, c.works = c.bytes+size, c.works+1
	c.most, c.mostWorks = max(c.most, c.bytes), max(c.mostWorks, c.works)
	c.mu.Unlock()
	if size > 1<<20 {
		time.Sleep(time.Minute)
	}
	c.mu.Lock()
	c.bytes, c.works = c.bytes-size, c.works-1
	c.mu.Unlock()
	return c.Cluster.Apply(ctx, w, keep)
}

// TestLargeWorksShareMemory checks that the decoded manifests of all works in progress share one
// limit. Small works do not wait for it. A work that grows while it waits does not exceed it.
func TestLargeWorksShareMemory(t *testing.T) {
	var c *counting
	run(t, func(o *controller.Options, _ *cluster) {
		c = &counting{Cluster: o.Cluster}
		o.Cluster = c
	}, func(b *bench) {
		sized := func(objects int) func(*workv1.ManifestWork) {
			return func(w *workv1.ManifestWork) {
				for i := range 3 {
					var m workv1.Manifest
					m.Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"},"x":[%s{}]}`, i,
						strings.Repeat("{},", objects))
					w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m)
				}
			}
		}
		const many = 12
		for i := range many {
			b.create(fmt.Sprint("large", i), sized(80_000)) // 85 MiB
		}
		for i := range many {
			b.create(fmt.Sprint("middle", i), sized(2_000)) // 2 MiB
		}
		b.create("grows", sized(2_000))
		time.Sleep(time.Second)
		w := b.get("grows")
		w.Spec.Workload.Manifests = nil
		sized(80_000)(w)
		if _, err := b.works.Update(b.Context(), w, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.create("small", sized(1))
		time.Sleep(5 * time.Second)
		b.reports("small", workv1.WorkApplied, metav1.ConditionTrue, "")
		time.Sleep(time.Hour)
		for _, name := range []string{"large0", fmt.Sprint("large", many-1), "middle0", fmt.Sprint("middle", many-1),
			"grows"} {
			b.reports(name, workv1.WorkApplied, metav1.ConditionTrue, "")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.most > 256<<20 || c.mostWorks > 16 {
			b.Errorf("%d works at a time, with %d MiB", c.mostWorks, c.most>>20)
		}
		b.Logf("up to %d works and %d MiB at a time", c.mostWorks, c.most>>20)
	})
}
