// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memcluster

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// replicaStart is the time until a replica of a simulated workload becomes ready. Replicas start
// one after the other.
const replicaStart = 150 * time.Millisecond

// setStatus simulates the controllers of a cluster. A status depends on the object and its age
// only, so no goroutine is needed.
func setStatus(obj *unstructured.Unstructured, age time.Duration) {
	gk := obj.GroupVersionKind().GroupKind()
	switch {
	case gk == kinds.Namespace.GroupKind():
		obj.Object["status"] = map[string]any{"phase": "Active"}
	case gk == kinds.CRD.GroupKind():
		obj.Object["status"] = map[string]any{"conditions": []any{
			condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
			condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
		}}
	case gk.Group == "apps" && (gk.Kind == "Deployment" || gk.Kind == "StatefulSet" || gk.Kind == "ReplicaSet"):
		obj.Object["status"] = workloadStatus(obj, age)
	}
}

func workloadStatus(obj *unstructured.Unstructured, age time.Duration) map[string]any {
	replicas, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if !found {
		replicas = 1
	}
	ready := min(replicas, int64(age/replicaStart))
	available := ready == replicas
	reason := "MinimumReplicasUnavailable"
	if available {
		reason = "MinimumReplicasAvailable"
	}
	return map[string]any{
		"observedGeneration": obj.GetGeneration(),
		"replicas":           replicas,
		"updatedReplicas":    replicas,
		"readyReplicas":      ready,
		"availableReplicas":  ready,
		"conditions": []any{
			condition("Available", available, reason, fmt.Sprintf("%d of %d replicas are ready", ready, replicas)),
		},
	}
}

func condition(kind string, status bool, reason, message string) map[string]any {
	text := "False"
	if status {
		text = "True"
	}
	return map[string]any{"type": kind, "status": text, "reason": reason, "message": message}
}
