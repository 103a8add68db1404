// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"path/filepath"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
)

// startOnMaestro starts an agent of this SDK on Maestro's broker. It keeps its works in a file.
func startOnMaestro(t *testing.T, hub *ocmgrpc.Maestro, m managed, file string) ourAgent {
	t.Helper()
	folder := t.TempDir()
	o := grpc.Options{Address: hub.Agents.Addr(), CAFile: hub.CA.Write(t, folder, "ca")}
	o.CertFile, o.KeyFile = hub.CA.IssueFor(t, cluster).Write(t, folder, "agent")
	return startWith(t, o, m, file, ocmgrpc.MaestroSource)
}

// TestAgentOnMaestro runs an agent of this SDK on Maestro's server.
func TestAgentOnMaestro(t *testing.T) {
	hub := ocmgrpc.StartMaestro(t, cluster)
	m, file := managed{agenttest.NewCluster()}, filepath.Join(t.TempDir(), "works.db")
	steps := ocmgrpc.Steps{
		Works: hub.Works("hub", cluster), Managed: m, Link: hub.Agents, Restart: hub.Restart,
		Start: func() ocmgrpc.Agent { return startOnMaestro(t, hub, m, file) },
	}
	steps.Run(t)
	steps.Chaos(t, 300)
	for _, problem := range m.Problems() {
		t.Error(problem)
	}
}
