// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API types of resource interpreter webhooks, group config.karmada.io, version v1alpha1. A
// multi-cluster control plane asks such a webhook how to read a resource that it does not know.
//
// There are two protocols, which say the same in different words:
//
//   - Explore, from the proposal: a [ResourceExploringWebhookConfiguration] registers webhooks by resources, and each
//     request is an [ExploreReview].
//   - Interpret, which Karmada ships: a [ResourceInterpreterWebhookConfiguration] registers webhooks by kinds, and each
//     request is a [ResourceInterpreterContext].
//
// [OperationType].Interpreter and [InterpreterOperation].Explore translate the names of operations. What both protocols
// carry (requirements, dependencies, statuses of clusters) is one Go type each.
//
// # Configurations
//
// [CRDs] returns the CustomResourceDefinitions. Their schema refuses what is wrong with field paths, and sets defaults;
// where there is no API server, SetDefaults and Validate of both configurations do the same, and also look at
// certificates, which a schema cannot.
//
// Objects of this package are not safe for concurrent writes; use the DeepCopy methods.
//
// +kubebuilder:object:generate=true
// +groupName=config.karmada.io
package v1alpha1

//go:generate controller-gen object:headerFile=boilerplate.go.txt crd:headerFile=boilerplate.yaml.txt paths=. output:crd:dir=crds
//go:generate go run ./internal/crdpatch crds
