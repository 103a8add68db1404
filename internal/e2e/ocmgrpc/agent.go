// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/e2e/ocmtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// StartManaged starts a managed cluster, with the CRD of AppliedManifestWork.
func StartManaged(t testing.TB) *kube.Cluster {
	t.Helper()
	return kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}})
}

// Credentials connect the agent of a cluster to a gRPC server.
type Credentials struct {
	CAFile            string
	CertFile, KeyFile string // may be empty
	TokenFile         string // may be empty
}

// Credentials writes the files of an agent with the certificate of [Hub.Identity].
func (h *Hub) Credentials(cluster string) Credentials {
	h.t.Helper()
	folder := h.t.TempDir()
	c := Credentials{CAFile: h.CA.Write(h.t, folder, "ca")}
	c.CertFile, c.KeyFile = h.Identity(cluster).Write(h.t, folder, "agent")
	return c
}

// TokenCredentials writes the files of an agent with the token of [Hub.Token].
func (h *Hub) TokenCredentials(cluster string) Credentials {
	h.t.Helper()
	folder := h.t.TempDir()
	c := Credentials{CAFile: h.CA.Write(h.t, folder, "ca"), TokenFile: filepath.Join(folder, "token")}
	token, _ := h.Token(cluster)
	if err := os.WriteFile(c.TokenFile, []byte(token), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// Config writes the configuration of OCM's gRPC driver for the server at an address.
func (c Credentials) Config(t testing.TB, addr string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "grpc.yaml")
	lines := []string{"url: " + addr, "caFile: " + c.CAFile, "serverHealthinessTimeout: 20s"}
	if c.CertFile != "" {
		lines = append(lines, "clientCertFile: "+c.CertFile, "clientKeyFile: "+c.KeyFile)
	}
	if c.TokenFile != "" {
		lines = append(lines, "tokenFile: "+c.TokenFile)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// StartAgent starts OCM's work agent for a cluster. addr is the address of a gRPC server, OCM's or
// another. The agent has all rights in the managed cluster.
func StartAgent(t testing.TB, addr, cluster string, c Credentials, managed *kube.Cluster) *daemon.Daemon {
	t.Helper()
	agent, err := daemon.Start("/usr/bin/env", "TMPDIR="+t.TempDir(), ocmtest.Program(t, "ocm-work"), "agent",
		"--kubeconfig="+managed.Kubeconfig(), "--namespace=default", "--listen="+daemon.FreeAddr(t).String(),
		"--disable-leader-election", "--spoke-cluster-name="+cluster, "--agent-id=agent1",
		"--workload-source-driver=grpc", "--workload-source-config="+c.Config(t, addr),
		fmt.Sprintf("--cloudevents-client-id=%s-agent", cluster), "--status-sync-interval=1s", "-v=4")
	if err != nil {
		t.Fatal(err)
	}
	agent.StopAfter(t, "OCM's work agent")
	return agent
}
