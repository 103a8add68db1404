// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package feedback

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
