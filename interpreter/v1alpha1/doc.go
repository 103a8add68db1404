// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the API types of resource interpreter webhooks, group config.karmada.io,
// version v1alpha1. A multi-cluster control plane asks such a webhook to interpret resources of
// unknown kinds.
//
// There are two protocols, with mostly the same content under different names:
//
//   - Explore, from Karmada's first proposal: a [ResourceExploringWebhookConfiguration] registers
//     webhooks by resources, and each request is an [ExploreReview].
//   - Interpret, which Karmada ships: a [ResourceInterpreterWebhookConfiguration] registers
//     webhooks by kinds, and each request is a [ResourceInterpreterContext].
//
// [OperationType].Interpreter and [InterpreterOperation].Explore translate the names of operations.
// Both protocols have the same Go types for requirements, dependencies and statuses of clusters.
//
// # Configurations
//
// [CRDs] returns the CustomResourceDefinitions. Their schema rejects invalid objects with field
// paths, and sets defaults. Without an API server, SetDefaults and Validate do the same.
//
// Objects of this package are not safe for concurrent writes; use the DeepCopy methods.
//
// +kubebuilder:object:generate=true
// +groupName=config.karmada.io
package v1alpha1

//go:generate controller-gen object:headerFile=boilerplate.go.txt crd:headerFile=boilerplate.yaml.txt paths=. output:crd:dir=crds
//go:generate go run ./internal/crdpatch crds
