// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// All sources and agents of a process may register their metrics in the same registry. The registry
// of controller-runtime is sigs.k8s.io/controller-runtime/pkg/metrics.Registry.
func Example_metrics() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registry := prometheus.NewRegistry()
	source := must(work.NewSource(memory.New().Transport(),
		work.SourceOptions{SourceID: "hub", MetricsRegisterer: registry}))
	go run(ctx, source)
	<-source.Ready()
	must(source.Clientset().WorkV1().ManifestWorks("cluster1").Create(ctx, newWork("app", "1"), metav1.CreateOptions{}))

	for _, family := range must(registry.Gather()) {
		switch metric := family.GetMetric()[0]; family.GetName() {
		case "spokewire_cloudevents_connected", "spokewire_cloudevents_works_unconfirmed":
			fmt.Print(family.GetName())
			for _, label := range metric.GetLabel() {
				fmt.Printf(" %s=%s", label.GetName(), label.GetValue())
			}
			fmt.Println(":", metric.GetGauge().GetValue())
		}
	}
	// Output:
	// spokewire_cloudevents_connected client=hub kind=source: 1
	// spokewire_cloudevents_works_unconfirmed client=hub kind=source: 1
}
