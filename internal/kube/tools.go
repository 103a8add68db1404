// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package kube builds the Kubernetes control plane that the end-to-end tests
// run against. Nothing imports it: this file only keeps the requirements of
// the three commands in go.mod, so that `go mod tidy` does not drop them.
package kube

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
