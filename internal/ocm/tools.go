// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package ocm builds programs of Open Cluster Management, which the end-to-end tests
// run as processes. Nothing imports it: this file only keeps the requirements of the
// commands in go.mod, so that `go mod tidy` does not drop them.
package ocm

import (
	_ "open-cluster-management.io/ocm/cmd/server"
	_ "open-cluster-management.io/ocm/cmd/work"
)
