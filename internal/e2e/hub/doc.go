// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub runs examples/hub and examples/agent together, each as a process of its own, on a Mosquitto with the access
// control of examples/hub/mosquitto and on two real API servers, of which the first is the hub's own too.
package hub
