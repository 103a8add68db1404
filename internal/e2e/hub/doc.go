// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub runs examples/hub and examples/agent together, each as a separate process. They use a
// Mosquitto with the access control of examples/hub/mosquitto, and two real API servers. The first
// one is also the hub's own API server.
package hub
