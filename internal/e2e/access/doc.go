// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package access holds tests of who may do what at a broker: a real Mosquitto with the configuration of examples/hub,
// certificates, and clients that have one and want more.
package access
