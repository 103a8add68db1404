// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// BenchmarkWatcherEstablish begins watches on as many objects as its name says, with client-go's default limits.
func BenchmarkWatcherEstablish(b *testing.B) {
	cluster := kube.Shared(b)
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
	cluster := kube.Shared(b)
	client := newWriter(b, cluster)
	ns := client.namespace("event")
	createSecrets(client, ns, many)
	for _, n := range []int{1, many} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := startWatcher(b, cluster.Config(), dynamicwatcher.Options{DisableInitialReconcile: true}, nil)
			watchMany(w, ns, n)
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s0"}}
			for i := 0; b.Loop(); i++ {
				s.StringData = map[string]string{"value": fmt.Sprint(b.Name(), i, b.N)}
				if _, err := client.CoreV1().Secrets(ns).Update(b.Context(), s, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
				w.eventuallyCount(policyID(ns, "p0"), i+1)
			}
		})
	}
}
