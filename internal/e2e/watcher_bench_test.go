// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// BenchmarkWatcherEstablish begins watches on as many objects as its name says, with client-go's default limits.
func BenchmarkWatcherEstablish(b *testing.B) {
	cluster := kube.Start(b, kube.Options{})
	client := newWriter(b, cluster)
	for _, n := range []int{1, 100, 1000} {
		ns := client.namespace(fmt.Sprint("n", n))
		createSecrets(client, ns, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			config := cluster.Config()
			config.QPS, config.Burst = 0, 0
			for b.Loop() {
				w := startWatcher(b, config, dynamicwatcher.Options{}, nil)
				watchMany(w, ns, n)
				b.ReportMetric(float64(w.dials.Load()), "connections")
				w.stop()
			}
		})
	}
}

// BenchmarkWatcherEvent changes one of so many watched objects, and waits for the reconcile.
func BenchmarkWatcherEvent(b *testing.B) {
	cluster := kube.Start(b, kube.Options{})
	client := newWriter(b, cluster)
	createSecrets(client, "default", many)
	for _, n := range []int{1, many} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := startWatcher(b, cluster.Config(), dynamicwatcher.Options{DisableInitialReconcile: true}, nil)
			watchMany(w, "default", n)
			for i := 0; b.Loop(); i++ {
				client.setSecret("default", "s0", fmt.Sprint(b.Name(), i, b.N))
				w.eventuallyCount(policyID("default", "p0"), i+1)
			}
		})
	}
}
