// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

const (
	managerNamespace = "open-cluster-management-hub"
	managerUser      = "system:serviceaccount:" + managerNamespace + ":work-controller-sa"
)

// assets returns the folder with OCM's program and manifests.
func assets(t *testing.T) string {
	t.Helper()
	script := filepath.Join("..", "..", "ocm", "build.sh") // only the script has the version
	out, err := exec.Command("bash", script, "--dir").Output()
	if err != nil {
		t.Fatalf("%s --dir: %v", script, err)
	}
	folder := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(folder, "ocm-work")); err != nil {
		t.Fatalf("OCM's work manager is missing: run `make ocm`: %v", err)
	}
	return folder
}

// crds returns the files of OCM's CRDs with these names.
func crds(t *testing.T, names ...string) (files []string) {
	t.Helper()
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(assets(t), "manifests", "crds", "*_"+name+".crd.yaml"))
		if err != nil || len(found) != 1 {
			t.Fatalf("OCM has the CRDs %v with the name %s, %v", found, name, err)
		}
		files = append(files, found...)
	}
	return files
}

// startManager starts OCM's work manager with the rights of its service account. It returns when the
// manager is the leader.
func (h *hub) startManager(t *testing.T) *daemon.Daemon {
	t.Helper()
	config := kube.WriteKubeconfig(t, h.User(managerUser))
	for attempt := 1; ; attempt++ {
		// The manager writes the certificate of its port to TMPDIR.
		manager, err := daemon.Start("/usr/bin/env", "TMPDIR="+t.TempDir(), filepath.Join(assets(t), "ocm-work"),
			"manager", "--kubeconfig="+config, "--namespace="+managerNamespace, "--listen="+daemon.FreeAddr(t).String(),
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
	h.CreateNamespaces(managerNamespace)
	var role rbacv1.ClusterRole
	render(t, "work/clusterrole.yaml", &role)
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var binding rbacv1.ClusterRoleBinding
	render(t, "work/clusterrolebinding.yaml", &binding)
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// render decodes a manifest of OCM's operator, which is a template.
func render(t *testing.T, file string, into any) {
	t.Helper()
	manifest, err := template.ParseFiles(filepath.Join(assets(t), "manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := manifest.Execute(&text, map[string]any{
		"ClusterManagerName": "cluster-manager", "ClusterManagerNamespace": managerNamespace, "Labels": map[string]string{},
	}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text.Bytes(), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
