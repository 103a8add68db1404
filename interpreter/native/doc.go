// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package native interprets the built-in kinds of Kubernetes without a webhook. In a chain, put it
// after customizations and webhooks, and before package customization/kinds:
//
//	answers := caller.Chain(own, webhooks, native.New(), kinds.New())
//	replicas, requirements, err := answers.Replicas(ctx, deployment)
//
// Its functions are pure: the same object gives the same answer, in the same order. An object that
// does not fit its type is an error. Operations keep the fields that they do not change, including
// unknown fields.
//
// # Kinds
//
// KINDS.md of package interpreter has the kinds and their operations, and [Interpreter.Supports]
// reports them.
//
// InterpretComponent is not answered, since no built-in kind has several pod templates. With an
// answer, control planes would treat the object as one with components, and would not divide its
// replicas among clusters.
//
// # Details
//
//   - Replicas that are not set are 1, as for the API server.
//   - Workloads, budgets and autoscalers with a generation are unhealthy while their
//     observedGeneration differs.
//   - [PodRequests] counts the requests of a pod as the scheduler does.
//   - The status of workloads includes their generation and the value of
//     [TemplateGenerationAnnotation]. The aggregated observedGeneration advances when each cluster
//     has received the newest object and its observedGeneration has reached the generation there.
//   - A Job is healthy if it is complete, running or suspended, and not failed.
//   - A CronJob is healthy if its last run succeeded or is running.
//   - A PersistentVolume is healthy if it is available or bound.
//   - A HorizontalPodAutoscaler is healthy if it can scale and reads its metrics.
//   - With the label [RetainReplicasLabel], Retain keeps the replicas that an autoscaler on the
//     cluster has set.
//
// # Aggregated statuses
//
// Numbers are sums. Times are the first start and the last end. The phase is the most important
// one: a pod that failed on one cluster has failed. Addresses are those of all clusters. Conditions
// are aggregated by type:
//
//	Available, Progressing, Suspended, Ready       True if True on all clusters,
//	and the other conditions of pods,              False if False on one
//	AbleToScale, ScalingActive, ScaledToZero,
//	Unused
//	ReplicaFailure, DisruptionTarget,              True if True on one cluster,
//	DisruptionAllowed, ScalingLimited,             False if all reports are False
//	those of resizing and modifying pods, volumes
//	Complete, SuccessCriteriaMet                   True if True on all clusters
//	FailureTarget                                  True if the Job fails on one cluster
//	Failed                                         True if the Job has failed on one cluster
//	                                               and ended on all
//	others                                         the common value
//
// A condition is Unknown if its row in this table does not decide. Reason and message are those of
// the clusters that decide, with their names. The time of the transition changes with the status.
// If clusters report no conditions, those of the object stay. Conditions of a Service do not
// change.
//
// A cluster that has not reported counts as not ready. Until it reports, Pods, claims and volumes
// are Pending, and a condition is Unknown unless one of the other clusters decides it. The
// observedGeneration is less than the generation.
//
// The API server accepts the aggregated status of a Job: counters never decrease, the start time
// stays, and an ended Job stays ended when clusters are added.
//
// # Pruned objects
//
// Prune removes the status, the finalizers and owners, and the metadata that the API server sets.
// It also removes:
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
