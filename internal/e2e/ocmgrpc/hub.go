// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package ocmgrpc runs Open Cluster Management (OCM) over gRPC for a test: OCM's real gRPC server on
// a hub, OCM's real work agent, and Maestro, each as a process. [Steps] are steps for any pair of
// processes.
//
//	hub := ocmgrpc.StartHub(t, "cluster1")
//	server := hub.StartServer()
//	managed := ocmgrpc.StartManaged(t)
//	credentials := ocmgrpc.AgentCredentials(t, hub.CA, "cluster1")
//	ocmgrpc.Steps{Works: hub.Works("cluster1"), Managed: managed, Server: server,
//		Start: func() *daemon.Daemon {
//			return ocmgrpc.StartAgent(t, server.Addr(), "cluster1", credentials, managed)
//		}}.Run(t)
//
// A hub has the ManifestWork and ManagedCluster APIs, but no registration controller: the fixture
// gives the rights to the server and to the agents that OCM gives to them, with OCM's manifests.
package ocmgrpc

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/e2e/ocmtest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
)

// serverUser is the service account of OCM's gRPC server.
const serverUser = "system:serviceaccount:" + ocmtest.HubNamespace + ":grpc-server-sa"

// Hub is a cluster with OCM's APIs, and an authority for the certificates of its gRPC server and of
// the agents.
type Hub struct {
	*kube.Cluster
	CA *certtest.Authority
	t  testing.TB
}

// StartHub starts a cluster with OCM's CRDs, and accepts managed clusters with these names.
func StartHub(t testing.TB, clusters ...string) *Hub {
	t.Helper()
	h := &Hub{t: t, CA: certtest.New(t), Cluster: kube.Start(t, kube.Options{
		CRDs: ocmtest.CRDs(t, "manifestworks", "managedclusters"),
	})}
	h.CreateNamespaces(append([]string{ocmtest.HubNamespace}, clusters...)...)
	h.grant("grpc-server/clusterrole.yaml", "grpc-server/clusterrolebinding.yaml")
	h.grant("agents/managedcluster-work-clusterrole.yaml", "")
	for _, name := range clusters {
		h.accept(name)
	}
	return h
}

// grant creates a role of OCM, and optionally its binding.
func (h *Hub) grant(role, binding string) {
	h.t.Helper()
	client := kubernetes.NewForConfigOrDie(h.Config()).RbacV1()
	var r rbacv1.ClusterRole
	ocmtest.Render(h.t, role, "", &r)
	if _, err := client.ClusterRoles().Create(h.t.Context(), &r, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	if binding == "" {
		return
	}
	var b rbacv1.ClusterRoleBinding
	ocmtest.Render(h.t, binding, "", &b)
	if _, err := client.ClusterRoleBindings().Create(h.t.Context(), &b, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// accept creates a managed cluster and gives its agents the rights to its works.
func (h *Hub) accept(cluster string) {
	h.t.Helper()
	managed := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	managed.Spec.HubAcceptsClient = true
	_, err := clusterclientset.NewForConfigOrDie(h.Config()).ClusterV1().ManagedClusters().
		Create(h.t.Context(), managed, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	var binding rbacv1.RoleBinding
	ocmtest.Render(h.t, "agents/managedcluster-work-rolebinding.yaml", cluster, &binding)
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: "agent", Namespace: cluster})
	client := kubernetes.NewForConfigOrDie(h.Config())
	if _, err = client.RbacV1().RoleBindings(cluster).
		Create(h.t.Context(), &binding, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	if _, err = client.CoreV1().ServiceAccounts(cluster).
		Create(h.t.Context(), account, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// Works returns the works of a cluster.
func (h *Hub) Works(cluster string) worktyped.ManifestWorkInterface {
	return workclientset.NewForConfigOrDie(h.Config()).WorkV1().ManifestWorks(cluster)
}

// Token makes a bearer token for the service account "agent" of a cluster, which has the rights of
// the cluster's agents. revoke deletes the service account, which ends the token.
func (h *Hub) Token(cluster string) (token string, revoke func()) {
	h.t.Helper()
	accounts := kubernetes.NewForConfigOrDie(h.Config()).CoreV1().ServiceAccounts(cluster)
	request, err := accounts.CreateToken(h.t.Context(), "agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return request.Status.Token, func() {
		if err := accounts.Delete(h.t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// StartServer starts OCM's gRPC server with the rights of its service account.
func (h *Hub) StartServer() *Server {
	h.t.Helper()
	folder := h.t.TempDir()
	certificate, key := h.CA.Issue(h.t, "grpc-server", "localhost").Write(h.t, folder, "server")
	lines := fmt.Sprintf("tls_cert_file: %s\ntls_key_file: %s\nclient_ca_file: %s\n",
		certificate, key, h.CA.Write(h.t, folder, "ca"))
	file := filepath.Join(folder, "config.yaml")
	args := []string{"TMPDIR=" + folder, ocmtest.Program(h.t, "ocm-server"), "grpc", "--server-config=" + file,
		"--kubeconfig=" + kube.WriteKubeconfig(h.t, h.User(serverUser)), "--namespace=" + ocmtest.HubNamespace,
		// Otherwise a successor of a killed server waits 137 s for its lease.
		"--disable-leader-election", "-v=4"}
	return StartServer(h.t, "OCM's gRPC server", 2, func(addrs []netip.AddrPort) ([]string, error) {
		config := fmt.Appendf(nil, "%sserver_bind_port: \"%d\"\n", lines, addrs[0].Port())
		listen := "--listen=" + addrs[1].String()
		return append(args[:len(args):len(args)], listen), os.WriteFile(file, config, 0o600)
	})
}
