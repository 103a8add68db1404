// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// field is a value of the rule WellKnownStatus and its path in the status.
type field struct{ name, path string }

// wellKnownFields are the fields of the kinds that the native interpreter reads. The names for
// Deployment, Job, Pod and DaemonSet are the same as in OCM's agent.
var wellKnownFields = map[schema.GroupKind][]field{
	{Group: "apps", Kind: "Deployment"}: {
		{"ReadyReplicas", ".readyReplicas"}, {"Replicas", ".replicas"}, {"AvailableReplicas", ".availableReplicas"},
	},
	{Group: "apps", Kind: "StatefulSet"}: {
		{"ReadyReplicas", ".readyReplicas"}, {"Replicas", ".replicas"}, {"AvailableReplicas", ".availableReplicas"},
	},
	{Group: "apps", Kind: "ReplicaSet"}: {
		{"ReadyReplicas", ".readyReplicas"}, {"Replicas", ".replicas"}, {"AvailableReplicas", ".availableReplicas"},
	},
	{Group: "apps", Kind: "DaemonSet"}: {
		{"NumberReady", ".numberReady"}, {"DesiredNumberScheduled", ".desiredNumberScheduled"},
		{"NumberAvailable", ".numberAvailable"},
	},
	{Group: "batch", Kind: "Job"}: {
		{"JobComplete", `.conditions[?(@.type=="Complete")].status`}, {"JobSucceeded", ".succeeded"},
	},
	{Group: "batch", Kind: "CronJob"}: {
		{"LastScheduleTime", ".lastScheduleTime"}, {"LastSuccessfulTime", ".lastSuccessfulTime"},
	},
	{Kind: "Pod"}: {
		{"PodReady", `.conditions[?(@.type=="Ready")].status`}, {"PodPhase", ".phase"},
	},
	{Kind: "Service"}: {
		{"LoadBalancerIP", ".loadBalancer.ingress[0].ip"},
		{"LoadBalancerHostname", ".loadBalancer.ingress[0].hostname"},
	},
	{Group: "networking.k8s.io", Kind: "Ingress"}: {
		{"LoadBalancerIP", ".loadBalancer.ingress[0].ip"},
		{"LoadBalancerHostname", ".loadBalancer.ingress[0].hostname"},
	},
	{Kind: "PersistentVolume"}:      {{"Phase", ".phase"}},
	{Kind: "PersistentVolumeClaim"}: {{"Phase", ".phase"}},
	{Group: "policy", Kind: "PodDisruptionBudget"}: {
		{"CurrentHealthy", ".currentHealthy"}, {"DesiredHealthy", ".desiredHealthy"},
		{"DisruptionsAllowed", ".disruptionsAllowed"},
	},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {
		{"CurrentReplicas", ".currentReplicas"}, {"DesiredReplicas", ".desiredReplicas"},
	},
}

// unmarshal decodes JSON with integers as int64.
func unmarshal(raw []byte, into *map[string]any) error { return utiljson.Unmarshal(raw, into) }
