// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package access tests access control at a broker: a real Mosquitto with the configuration of
// examples/hub, certificates, and clients that try to exceed their rights.
package access
