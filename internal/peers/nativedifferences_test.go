// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import "slices"

// difference is a row of interpreter/native/KARMADA.md: the answer of Karmada, the answer of
// package native, and which one is right and why.
type difference struct{ name, karmada, here, right string }

func listed(name string) bool {
	return slices.ContainsFunc(differences, func(d difference) bool { return d.name == name })
}

// onlyHere and onlyKarmada are the kinds that only one of the two interprets, by operation.
var (
	onlyHere = map[string][]string{
		"Retain":              {"ReplicaSet", "StatefulSet"},
		"InterpretDependency": {"ServiceAccount"},
		"InterpretHealth":     {"CronJob", "HorizontalPodAutoscaler", "Job", "PersistentVolume"},
	}
	onlyKarmada = map[string][]string{
		"InterpretDependency": {"ServiceImport"},
	}
)

// differences are sorted by operation, as in the page.
var differences = []difference{
	// All operations.
	{
		"other kinds", "Prune and InterpretStatus take any kind", "an error",
		"both: a chain asks its next interpreter",
	},
	{
		"objects that do not fit their type", "ReviseReplica and Retain ignore fields that they do not use", "an error",
		"here: the API server refuses such an object",
	},
	{
		"unknown fields", "Retain of a Pod and AggregateStatus drop fields that the Go types do not know", "kept",
		"here: a field of a newer Kubernetes would be removed from the cluster",
	},
	// InterpretHealth, InterpretReplica and ReviseReplica.
	{
		"replicas that are not set", "0 replicas, healthy without pods, and ReviseReplica changes nothing",
		"1 replica, and ReviseReplica sets the replicas",
		"here: the API server sets 1",
	},
	{
		"old pods", "a Deployment is healthy while pods of the old template run", "unhealthy",
		"here: the rollout has not ended, as in kubectl rollout status",
	},
	{
		"failed rollout", "a Deployment that exceeded its deadline can be healthy", "unhealthy",
		"here: the controller has given up the rollout",
	},
	{
		"partition", "a StatefulSet is unhealthy while it has a partition",
		"healthy when the pods above the partition are updated",
		"here: the others must not be updated",
	},
	{
		"OnDelete", "unhealthy until somebody deletes the old pods", "healthy while the pods are available",
		"here: no controller updates them",
	},
	{
		"no generation", "unhealthy when the status has an observedGeneration", "the observedGeneration does not count",
		"here: a manifest has no generation to compare with",
	},
	{
		"old budget", "the generation of a PodDisruptionBudget does not count", "unhealthy until it is observed",
		"here: its numbers are those of the older budget",
	},
	{
		"namespace and priority class", "left out; the priority class is behind a feature gate", "set in the requirements",
		"here: an estimator needs them for quotas",
	},
	{
		"sidecars", "counted as other init containers", "added to the containers that they run with",
		"here: as the scheduler counts",
	},
	{
		"requests of the pod as a whole", "ignored", "they replace the sum over the containers",
		"here: as the scheduler counts",
	},
	{
		"zero and small requests", "dropped at 0, rounded up to 1m of CPU and 1 byte", "kept as they are",
		"here: rounded requests add up to more than the pods request",
	},
	{
		"resources of other names", "only the names that the scheduler of Kubernetes 1.26 knows", "all",
		"both: the API server refuses other names",
	},
	{
		"negative replicas", "set", "an error",
		"here: the API server refuses the object",
	},
	// Retain.
	{
		"observed replicas that are missing", "an error", "the desired replicas stay",
		"both: the API server always sets replicas",
	},
	{
		"changes that the cluster refuses", "overwritten with the observed values",
		"sent, and refused by the API server of the cluster",
		"here: the user sees the error, and can create the object again",
	},
	{
		"admission", "priority, preemption policy, pull secrets and tolerations are removed", "retained",
		"here: the API server refuses an update without the secrets or the tolerations",
	},
	{
		"fields that the new type does not have", "the address or port of the earlier Service type is set", "left out",
		"both: the API server removes them",
	},
	{
		"allocated addresses and ports", "only clusterIP and healthCheckNodePort are retained",
		"also IP families and node ports",
		"both: the API server keeps the others",
	},
	{
		"references without a name", "a panic, also in Prune", "kept",
		"here: an interpreter must not end its process",
	},
	{
		"labels of pods", "those of the observed template replace the desired ones",
		"only those of the API server are retained",
		"here: labels of a suspended Job can be changed",
	},
	{
		"account of a token", "the annotation with the UID of the account is removed", "retained",
		"here: the cluster needs it to delete the token of a recreated account",
	},
	// AggregateStatus.
	{
		"conditions", "dropped or left as they were", "aggregated",
		"here: tools wait for conditions",
	},
	{
		"other numbers", "left out or left as they were", "aggregated: numbers of pods, times and the observed generation",
		"here: the status is that of all clusters",
	},
	{
		"the rest of the aggregated status", "cleared", "left as it was",
		"here: it belongs to the control plane",
	},
	{
		"sums that are too large", "negative", "the largest number",
		"here: the API server refuses negative numbers",
	},
	{
		"generation of a StatefulSet",
		"resourceTemplateGeneration is compared with the generation on the cluster",
		"it is compared with the generation of the object",
		"here: each cluster counts its own generations; for other kinds Karmada compares as here",
	},
	{
		"earlier object", "a resourceTemplateGeneration above the generation of the object counts as observed",
		"both must be equal",
		"here: an object that was deleted and created again counts from 1",
	},
	{
		"cluster that has not reported", "observedGeneration stays, so the object stays ready",
		"less than the generation",
		"here: a new cluster must not count as ready",
	},
	{
		"claim that is not reported", "Bound", "Pending",
		"here: as for Pods and PersistentVolumes",
	},
	{
		"empty status", "ignored for a Pod and a PersistentVolume; an empty phase for a PersistentVolumeClaim", "Pending",
		"here: no controller of the cluster has seen the object",
	},
	{
		"on no cluster", "a Pod stays as it is, a PersistentVolume has no phase, a PersistentVolumeClaim is Bound", "Pending",
		"here: what runs nowhere is not ready",
	},
	{
		"unknown pods", "ignored", "Unknown, before Pending and Running",
		"here: the cluster has lost the node of the pod",
	},
	{
		"containers of a Pod", "only the fields ready and state", "all fields, with the names of the containers",
		"here: users see which container fails",
	},
	{
		"start of a Job", "set when the Job has started on all clusters", "the first start",
		"here: the Job runs, and another cluster may never start it",
	},
	{
		"end of a Job", "Failed on the first failure, with the current time; a completion time without Complete",
		"FailureTarget, then Failed when the Job has ended on all clusters; Complete after SuccessCriteriaMet",
		"here: the API server refuses other orders; equal questions have equal answers",
	},
	{
		"counters of a Job", "can go down", "do not go down",
		"here: the API server refuses that",
	},
	// InterpretDependency.
	{
		"deprecated account", "only serviceAccountName", "serviceAccount too",
		"here: the API server accepts both",
	},
	{
		"volume claim templates", "a claim with the name of a template is left out",
		"the claim of a volume with the name of a template is left out",
		"here: the controller replaces this volume, and adds the name of the pod to the names of claims",
	},
	{
		"certificate twice", "listed twice", "listed once",
		"here: it is one object",
	},
	{
		"certificate of the controller", "an error for TLS without secretName", "left out",
		"here: Kubernetes allows it, and the other dependencies are lost with the error",
	},
	// InterpretStatus.
	{
		"the rest of the status", "only the fields that AggregateStatus of Karmada reads", "the whole status",
		"here: other interpreters and users read more",
	},
	{
		"status that is missing", "nothing; 0 replicas of a ReplicaSet",
		"the generation of workloads, budgets and autoscalers",
		"both: it is not ready",
	},
	{
		"generation of the template", "an error when its annotation is missing or is no number", "left out",
		"here: a control plane that does not set it still receives the status",
	},
	{
		"status that does not fit", "an error", "passed on",
		"both: AggregateStatus refuses it",
	},
	// Prune.
	{
		"pruned objects that do not fit their type", "an error for a Job", "pruned",
		"both: the API server refuses the object",
	},
	{
		"tokens in a row", "of two adjacent tokens of a ServiceAccount, the second stays", "both are removed",
		"here: the token is of another cluster",
	},
	{
		"claim of a volume", "the UID of the claim stays", "removed, with its resourceVersion",
		"here: the claim on the cluster has another UID; the old UID would release the volume and may delete its data",
	},
}
