// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kinds interprets the custom resources of widely used projects without a webhook. It has
// an [Interpreter] for a chain.
//
//	answers := caller.Chain(own, webhooks, native.New(), kinds.New())
//	healthy, err := answers.Health(ctx, cloneSet)
//
// The page interpreter/KINDS.md lists the kinds and their operations. Each YAML file of the package
// has the customizations of an API group, in CEL: see package customization. To change an answer,
// put an interpreter with your own customization before this one.
//
// For the kinds that Karmada interprets with Lua scripts, the answers are those of the scripts.
// KARMADA.md lists the differences.
//
// # Default
//
// Every other kind has a default: Supports is true for the health, the status and the aggregated
// status of any kind, also of a Secret. Therefore put this interpreter last, after your own
// customizations, webhooks and package native.
//
// The health is that of kstatus (sigs.k8s.io/cli-utils): false while the object is being deleted,
// while status.observedGeneration is not the generation, and while the condition Reconciling or
// Stalled is True. Otherwise the condition Ready decides. For an object without these conditions,
// which is Current in kstatus, the result is [interpreter.ErrNotInterpreted]: its controller may not
// have run yet.
//
// The status is reflected as a whole. It is aggregated if a cluster reports the condition Ready,
// Reconciling or Stalled. On one cluster, the aggregated status is that of the cluster, but its
// observedGeneration refers to the object in the control plane. On several clusters, it has only
// conditions and the observed generation.
//
// # Differences between the projects
//
//   - A Rollout of Argo that is paused is not healthy: it waits for a person or a timer.
//   - A Gateway is healthy if all its listeners are valid. A route is healthy if it has parents, and
//     all of them accept all its rules.
//   - An object that is being deleted is not healthy, except of the kinds that Karmada interprets.
//   - A managed resource of Crossplane is healthy if Ready is True, and Synced is True for its
//     generation. Composite resources of groups below crossplane.io or upbound.io are interpreted
//     in the same way. Other composite resources have the default answers.
//   - KEDA reports no observed generation. After a change, the health may be that of the earlier
//     object for a moment.
//   - Secrets of a ClusterIssuer are dependencies in the namespace cert-manager, and those of a
//     ClusterTriggerAuthentication in the namespace keda, as in the usual installations.
//   - Objects that a controller makes on each cluster, for instance the Secret of a Certificate, are
//     not dependencies. Neither are Gateways and GatewayClasses: the administrators of a cluster
//     create them.
//
// # Limits
//
// The first query compiles all expressions, once in a process: it takes about 0.2 s and
// allocates 36 MB. The limits of an evaluation are those of package customization. They are enough
// to aggregate four conditions of 1,000 clusters, or a Gateway with 10 listeners on 200 clusters.
package kinds
