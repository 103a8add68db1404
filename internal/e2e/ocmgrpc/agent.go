// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/e2e/ocmtest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// Cluster is a managed cluster with a real API server.
type Cluster struct {
	*kube.Cluster
	t testing.TB
}

// StartManaged starts a managed cluster, with the CRD of AppliedManifestWork and [Namespace]. Agents
// rely on its garbage collector: this SDK's deletes in the foreground, and OCM's may create an object
// while it removes the owner.
func StartManaged(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{kube.Start(t, kube.Options{CRDs: []string{kube.ManifestWorkCRDs(t)}}), t}
	c.StartControllerManager()
	c.CreateNamespaces(Namespace)
	return c
}

// Values returns the value of each ConfigMap in [Namespace], by name.
func (c *Cluster) Values() (map[string]string, error) {
	list, err := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().ConfigMaps(Namespace).
		List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, object := range list.Items {
		if object.Name != "kube-root-ca.crt" { // of the controller manager
			values[object.Name] = object.Data["value"]
		}
	}
	return values, nil
}

// Credentials connect the agent of a cluster to a gRPC server.
type Credentials struct {
	CAFile            string
	CertFile, KeyFile string // may be empty
	TokenFile         string // may be empty
}

// AgentCredentials writes the files of an agent with the certificate that OCM's registration gives
// to the agent of a cluster.
func AgentCredentials(t testing.TB, ca *certtest.Authority, cluster string) Credentials {
	t.Helper()
	folder, group := t.TempDir(), "system:open-cluster-management:"+cluster
	c := Credentials{CAFile: ca.Write(t, folder, "ca")}
	c.CertFile, c.KeyFile = ca.IssueFor(t, group+":agent1", group).Write(t, folder, "agent")
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
func StartAgent(t testing.TB, addr, cluster string, c Credentials, managed *Cluster) *daemon.Daemon {
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

// StartSpokewireAgent starts the program examples/agent for a cluster, with the profile of
// OCM. source is the source of the server at addr.
func StartSpokewireAgent(
	t testing.TB, addr, source, cluster string, c Credentials, managed *Cluster, flags ...string,
) *daemon.Daemon {
	t.Helper()
	args := []string{"--cluster=" + cluster, "--kubeconfig=" + managed.Kubeconfig(), "--hub=" + addr,
		"--hub-ca=" + c.CAFile, "--manifest-bundles", "--source=" + source, "-v=2"}
	if c.CertFile != "" {
		args = append(args, "--hub-cert="+c.CertFile, "--hub-key="+c.KeyFile)
	}
	if c.TokenFile != "" {
		args = append(args, "--hub-token-file="+c.TokenFile)
	}
	agent, err := daemon.Start(e2etest.Program(t, "agent", true), append(args, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	agent.StopAfter(t, "examples/agent")
	return agent
}
