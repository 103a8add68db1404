// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

// pruner removes the fields that the API server and the controllers of the control plane have set.
// With Go types, unknown fields of the status would stay.
var pruner = interpreter.HandlerFor[*unstructured.Unstructured]{Prune: prune}

// controllerFields are set by the controllers of one kind.
var controllerFields = map[string][][]string{
	"Deployment": {
		{"metadata", "annotations", "deployment.kubernetes.io/revision"},
		{"metadata", "annotations", "deployment.kubernetes.io/revision-history"},
	},
	// If a cluster deleted a finished Job, the Job would be created again.
	"Job": {{"spec", "ttlSecondsAfterFinished"}},
	// The claim has another UID on the cluster.
	"PersistentVolume":      {{"spec", "claimRef", "uid"}, {"spec", "claimRef", "resourceVersion"}},
	"PersistentVolumeClaim": {{"metadata", "annotations", "volume.kubernetes.io/selected-node"}},
}

// These labels are set by the API server of each cluster.
var (
	controllerUIDLabels = []string{batchv1.ControllerUidLabel, "controller-uid"}
	jobLabels           = append([]string{batchv1.JobNameLabel, "job-name"}, controllerUIDLabels...)
)

func prune(_ context.Context, u *unstructured.Unstructured) error {
	for _, path := range slices.Concat(aggregate.ServerFields(), controllerFields[u.GetKind()]) {
		unstructured.RemoveNestedField(u.Object, path...)
	}
	switch u.GetKind() {
	case "Job":
		if manual, _, _ := unstructured.NestedBool(u.Object, "spec", "manualSelector"); !manual {
			for _, label := range controllerUIDLabels {
				unstructured.RemoveNestedField(u.Object, "spec", "selector", "matchLabels", label)
			}
			for _, label := range jobLabels {
				unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", label)
			}
		}
	case "Service":
		// The user chooses a headless Service.
		if ip, _, _ := unstructured.NestedString(u.Object, "spec", "clusterIP"); ip != "" && ip != corev1.ClusterIPNone {
			unstructured.RemoveNestedField(u.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(u.Object, "spec", "clusterIPs")
		}
	case "ServiceAccount":
		if secrets, there := u.Object["secrets"].([]any); there {
			u.Object["secrets"] = slices.DeleteFunc(secrets, func(secret any) bool {
				reference, _ := secret.(map[string]any)
				name, _ := reference["name"].(string)
				return strings.HasPrefix(name, u.GetName()+"-token-")
			})
		}
	case "Secret":
		if u.Object["type"] == string(corev1.SecretTypeServiceAccountToken) {
			unstructured.RemoveNestedField(u.Object, "data")
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", corev1.ServiceAccountUIDKey)
		}
	}
	return nil
}
