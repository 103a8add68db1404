// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/e2e/ocmtest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const managerUser = "system:serviceaccount:" + ocmtest.HubNamespace + ":work-controller-sa"

// startManager starts OCM's work manager with the rights of its service account. It returns when the
// manager is the leader.
func (h *hub) startManager(t *testing.T) *daemon.Daemon {
	t.Helper()
	config := kube.WriteKubeconfig(t, h.User(managerUser))
	for attempt := 1; ; attempt++ {
		// The manager writes the certificate of its port to TMPDIR.
		manager, err := daemon.Start("/usr/bin/env", "TMPDIR="+t.TempDir(), ocmtest.Program(t, "ocm-work"),
			"manager", "--kubeconfig="+config, "--namespace="+ocmtest.HubNamespace, "--listen="+daemon.FreeAddr(t).String(),
			"--feature-gates=ManifestWorkReplicaSet=true", "-v=4")
		if err != nil {
			t.Fatal(err)
		}
		err = manager.WaitReady(e2etest.Patience, func() error {
			if !strings.Contains(manager.Log(), "successfully acquired lease") {
				return errors.New("it is not the leader")
			}
			return nil
		})
		if err == nil {
			manager.StopAfter(t, "OCM's work manager")
			return manager
		}
		manager.Stop()
		if attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			t.Fatal(err)
		}
	}
}

// authorize gives the rights to the service account of the manager that OCM's operator gives to it.
func (h *hub) authorize() {
	t := h.t
	t.Helper()
	client := kubernetes.NewForConfigOrDie(h.Config())
	h.CreateNamespaces(ocmtest.HubNamespace)
	var role rbacv1.ClusterRole
	ocmtest.Render(t, "work/clusterrole.yaml", "", &role)
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var binding rbacv1.ClusterRoleBinding
	ocmtest.Render(t, "work/clusterrolebinding.yaml", "", &binding)
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
