// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package native interprets the built-in kinds of Kubernetes without a webhook: an [Interpreter] for the end of a
// chain, after the webhooks.
//
//	answers := caller.Chain(webhooks, native.New())
//	replicas, requirements, err := answers.Replicas(ctx, deployment)
//
// Its functions are pure: the same object gives the same answer, in the same order. They take any input: what does not
// fit its type is an error. They change what they are asked to change and keep every other field, known or not.
//
// # What is answered
//
//	kind                      replicas  revise  retain  aggregate  dependencies  status  health  prune
//	Deployment                x         x       x       x          x             x       x       x
//	StatefulSet               x         x       x       x          x             x       x       x
//	ReplicaSet                x         x       x       x          x             x       x       x
//	DaemonSet                                           x          x             x       x       x
//	Job                       x         x       x       x          x             x       x       x
//	CronJob                                             x          x             x       x       x
//	Pod                       x                 x       x          x             x       x       x
//	Service                                     x       x                        x       x       x
//	Ingress                                             x          x             x       x       x
//	PersistentVolume                            x       x                        x       x       x
//	PersistentVolumeClaim                       x       x                        x       x       x
//	PodDisruptionBudget                                 x                        x       x       x
//	HorizontalPodAutoscaler                             x                        x       x       x
//	ServiceAccount                              x                  x                             x
//	Secret                                      x                                                x
//
// InterpretComponent is for objects with several pod templates, of which there are none here. It is not answered with
// the one template of a workload either: control planes ask for components first, and do not divide the replicas of what
// has them.
//
// # Details
//
//   - Replicas that are not set are 1, as for the API server.
//   - The observedGeneration of a status counts only for an object with a generation, not for a manifest.
//   - [PodRequests] counts what a pod requests as the scheduler does: init containers, sidecars, requests of the pod as a
//     whole, overhead, and limits that stand in for requests.
//   - The status of workloads comes with their generation and with the one of [TemplateGenerationAnnotation]. With these
//     an aggregated observedGeneration advances when each cluster has observed the newest object, and not before.
//   - A Job is healthy when it is complete, running or suspended, and not failed. A CronJob is, unless its last run has
//     neither succeeded nor is under way. A PersistentVolume is when it is available or bound, a HorizontalPodAutoscaler
//     when it can scale and reads its metrics.
//   - The label [RetainReplicasLabel] leaves replicas to an autoscaler of the cluster.
//
// # Aggregated statuses
//
// Numbers are sums, times the first start and the last end, phases the one that tells the most (a pod that failed on one
// cluster has failed), addresses those of all clusters. Conditions are aggregated by type:
//
//	Available, Progressing, Suspended, Ready and the other conditions of pods,    True where they are on all clusters,
//	AbleToScale, ScalingActive, ScaledToZero, Unused                              False where they are on one
//	ReplicaFailure, DisruptionTarget, DisruptionAllowed, ScalingLimited,          True where they are on one cluster
//	resizes and changes of pods and volumes
//	Complete, SuccessCriteriaMet                                                  True where they are on all clusters
//	FailureTarget                                                                 True where the Job fails on one cluster,
//	Failed                                                                        and this, when it has ended on all
//	others                                                                        what all clusters say
//
// All else is Unknown. Reason and message are those of the clusters that decide, and say which these are; the time of the
// transition stays while the status does. Where clusters report no conditions, those of the object stay. Conditions of a
// Service stay as they are.
//
// A cluster that has not reported counts as not ready. Pods, claims and volumes are Pending. Conditions are False where
// another cluster decides so, and otherwise Unknown. The observedGeneration is less than the generation.
//
// The status of a Job is one that the API server takes: it allows nothing but what the Job's own controller could do. No
// counter goes down, the time of the start stays, and what has ended stays ended, whatever clusters are added.
//
// # Pruned objects
//
// Prune removes the status, the finalizers and owners, and the metadata that the API server sets. It also removes:
//
//	Deployment             the annotations of its revisions
//	Job                    ttlSecondsAfterFinished, and the generated labels and selector
//	Service                its addresses, unless it is headless
//	ServiceAccount         the secrets with its tokens
//	Secret                 the token of a ServiceAccount, and the UID of the account
//	PersistentVolumeClaim  the annotation of the selected node
//	PersistentVolume       UID and resourceVersion of its claim
//
// KARMADA.md lists every difference from Karmada's interpreter of built-in kinds.
package native
