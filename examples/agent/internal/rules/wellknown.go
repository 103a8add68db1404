// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
)

// wellKnownHealthy is the condition that reports whether an object is healthy. All other conditions
// report completion.
const wellKnownHealthy = "Healthy"

// wellKnown evaluates a rule for built-in kinds of Kubernetes. It reports whether an object is
// complete, for any condition except Healthy, or whether it is healthy. The string is the message.
func (e *Evaluator) wellKnown(
	ctx context.Context, condition string, obj *unstructured.Unstructured,
) (is bool, message string, err error) {
	if condition == wellKnownHealthy {
		is, err = e.native.Health(ctx, obj)
		if errors.Is(err, interpreter.ErrNotInterpreted) {
			return false, "", invalid("objects of kind %s have no well-known health: use CEL", obj.GetKind())
		}
		return is, "", err
	}
	decode := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch obj.GetAPIVersion() + " " + obj.GetKind() {
	case "batch/v1 Job":
		var job batchv1.Job
		err = decode(obj.Object, &job)
		is = slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		})
		if is {
			return true, "Job is finished", err
		}
		return false, "Job is not finished", err
	case "v1 Pod":
		var pod corev1.Pod
		err = decode(obj.Object, &pod)
		is = pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		return is, fmt.Sprintf("Pod is in phase %s", pod.Status.Phase), err
	}
	return false, "", invalid("objects of kind %s have no well-known condition: use CEL", obj.GetKind())
}

// field is a value of the rule WellKnownStatus and its path in the status.
type field struct{ name, path string }

// wellKnownFields are the fields of the kinds of the native interpreter. The names for Deployment,
// Job, Pod and DaemonSet are the same as in OCM's agent.
var wellKnownFields = map[string][]field{
	"apps/v1 Deployment":  replicas,
	"apps/v1 StatefulSet": replicas,
	"apps/v1 ReplicaSet":  replicas,
	"apps/v1 DaemonSet": {
		{"NumberReady", "numberReady"}, {"DesiredNumberScheduled", "desiredNumberScheduled"},
		{"NumberAvailable", "numberAvailable"},
	},
	"batch/v1 Job": {
		{"JobComplete", `conditions[?(@.type=="Complete")].status`}, {"JobSucceeded", "succeeded"},
	},
	"batch/v1 CronJob": {
		{"LastScheduleTime", "lastScheduleTime"}, {"LastSuccessfulTime", "lastSuccessfulTime"},
	},
	"v1 Pod":                       {{"PodReady", `conditions[?(@.type=="Ready")].status`}, {"PodPhase", "phase"}},
	"v1 Service":                   loadBalancer,
	"networking.k8s.io/v1 Ingress": loadBalancer,
	"v1 PersistentVolume":          {{"Phase", "phase"}},
	"v1 PersistentVolumeClaim":     {{"Phase", "phase"}},
	"policy/v1 PodDisruptionBudget": {
		{"CurrentHealthy", "currentHealthy"}, {"DesiredHealthy", "desiredHealthy"},
		{"DisruptionsAllowed", "disruptionsAllowed"},
	},
	"autoscaling/v2 HorizontalPodAutoscaler": {
		{"CurrentReplicas", "currentReplicas"}, {"DesiredReplicas", "desiredReplicas"},
	},
}

var (
	replicas = []field{
		{"ReadyReplicas", "readyReplicas"}, {"Replicas", "replicas"}, {"AvailableReplicas", "availableReplicas"},
	}
	loadBalancer = []field{
		{"LoadBalancerIP", "loadBalancer.ingress[0].ip"},
		{"LoadBalancerHostname", "loadBalancer.ingress[0].hostname"},
	}
)
