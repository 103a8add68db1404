// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package ocm_test runs the work manager of Open Cluster Management (OCM) as a process. It rolls out
// a ManifestWorkReplicaSet to two clusters, and examples/agent runs on each as a process. The hub
// stores the works in one of two ways:
//
//   - kube: the hub's API server has the CRD of ManifestWork, and the agents connect to it.
//   - aggregated: the hub's API server forwards requests for works to package
//     cloudevents/work/apiserver, and the agents receive the works over Mosquitto.
//
// The manager has the same flags and the same rights in both.
package ocm_test

import (
	"os"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

var eventually, background = e2etest.Eventually, e2etest.Background

func TestMain(m *testing.M) {
	e2etest.Prepare("agent", true) // while the servers start
	os.Exit(e2etest.Main(m))
}
