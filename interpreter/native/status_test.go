// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// TestSumsDoNotOverflow checks that sums of very large counts do not become negative.
func TestSumsDoNotOverflow(t *testing.T) {
	for kind, counts := range map[string][]string{
		"apps/v1 Deployment": {"replicas", "readyReplicas", "updatedReplicas", "availableReplicas",
			"unavailableReplicas", "terminatingReplicas"},
		"apps/v1 StatefulSet": {"replicas", "readyReplicas", "currentReplicas", "updatedReplicas",
			"availableReplicas"},
		"apps/v1 ReplicaSet": {"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"},
		"apps/v1 DaemonSet": {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
			"numberReady", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"},
		"batch/v1 Job":                           {"active", "succeeded", "failed"},
		"policy/v1 PodDisruptionBudget":          {"currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"},
		"autoscaling/v2 HorizontalPodAutoscaler": {"currentReplicas", "desiredReplicas"},
	} {
		var apiVersion, name string
		if _, err := fmt.Sscan(kind, &apiVersion, &name); err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": name,
			"metadata": map[string]any{"name": "a", "namespace": "b"}}}
		for _, count := range counts {
			status := &runtime.RawExtension{Raw: fmt.Appendf(nil, `{%q: 2147483647}`, count)}
			got, err := native.New().AggregateStatus(t.Context(), object, []interpreter.AggregatedStatusItem{
				{ClusterName: "one", Status: status}, {ClusterName: "two", Status: status},
			})
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				continue
			}
			if sum, _, _ := unstructured.NestedInt64(got.Object, "status", count); sum != 2147483647 {
				t.Errorf("%s: %s is %d", kind, count, sum)
			}
		}
	}
}
