// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package etcd builds the etcd server of the end-to-end tests. It is a module
// apart from its parent because Kubernetes is tested with an older etcd client
// than the server that is built here, and one module can hold only one of them.
package etcd

import _ "go.etcd.io/etcd/server/v3"
