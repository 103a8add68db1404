// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeaccess tests the access of gRPC clients with the RBAC of a real kube-apiserver.
package kubeaccess
