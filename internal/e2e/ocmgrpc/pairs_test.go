// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
)

const cluster = "cluster1"

// TestOCMAgentOnOCMServer is the baseline for the pairs with a hub or an agent of this SDK.
func TestOCMAgentOnOCMServer(t *testing.T) {
	hub := ocmgrpc.StartHub(t, cluster)
	server, managed := hub.StartServer(), ocmgrpc.StartManaged(t)
	credentials := hub.Credentials(cluster)
	ocmgrpc.Steps{
		Works: hub.Works(cluster), Managed: managed, Link: server.Link, Restart: server.Restart,
		Start: func() ocmgrpc.Agent {
			return ocmgrpc.StartAgent(t, server.Addr(), cluster, credentials, managed)
		},
	}.Run(t)
}
