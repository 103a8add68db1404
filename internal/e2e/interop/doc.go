// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package interop tests this SDK's source with an agent of the OCM SDK
// (open-cluster-management.io/sdk-go v1.3.0), and the OCM SDK's source with this SDK's agent, over
// a real Mosquitto. Only the tests of this package import the OCM SDK.
//
// With the race detector the package has no tests: it finds a race in the reconnect of the OCM SDK.
// The MQTT transport of that SDK makes new channels while the old receiver may read them. Without
// the race detector:
//
//	go test -C internal/e2e ./interop
package interop
