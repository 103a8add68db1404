// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package join tests how agents join a hub, renew their certificates and are revoked: with the
// programs hub and agent, a real kube-apiserver, over gRPC and over Mosquitto.
package join
