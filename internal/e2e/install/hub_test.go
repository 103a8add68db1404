// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// reading is an application with templates that read objects of the hub's cluster.
const reading = `apiVersion: hub.spokewire.io/v1alpha1
kind: Cluster
metadata: {name: cluster1}
---
apiVersion: hub.spokewire.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  parts:
  - name: settings
    manifests:
    - template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: copy, namespace: default}
        data:
          value: {{ fromConfigMap "settings" "c" "value" | quote }}
          secret: {{ fromSecret "settings" "s" "value" | quote }}
---
apiVersion: hub.spokewire.io/v1alpha1
kind: Placement
metadata: {name: all}
spec:
  applications: [shop]
  clusters: {names: [cluster1]}
`

// TestRightsOfHub runs a hub with templates that read objects. It has rights only in the namespace in
// which its role is bound, and uses each of them.
func TestRightsOfHub(t *testing.T) {
	t.Parallel()
	s := newSite(t, "WatchList=false") // as on older servers: with it, the hub sends no list
	s.cluster.CreateNamespaces("settings")
	s.install("hub", "--", "--broker", "mqtts://broker.example.com", "--kubeconfig", "auto")
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "settings"} }
	_, err := s.core.CoreV1().ConfigMaps("settings").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta("c"),
		Data: map[string]string{"value": "plain"}}, metav1.CreateOptions{})
	if err == nil {
		_, err = s.core.CoreV1().Secrets("settings").Create(t.Context(), &corev1.Secret{ObjectMeta: meta("s"),
			StringData: map[string]string{"value": "secret"}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = s.core.RbacV1().RoleBindings("settings").Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta("hub"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
				Name: "spokewire-hub-templates"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "hub"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	documents := t.TempDir()
	if err := os.WriteFile(filepath.Join(documents, "all.yaml"), []byte(reading), 0o600); err != nil {
		t.Fatal(err)
	}
	hub, err := daemon.Start(e2etest.Program(t, "hub", false), "--grpc", daemon.FreeAddr(t).String(), "--dir", documents,
		"--store", t.TempDir(), "--listen", "127.0.0.1:0", "--kubeconfig", s.account("hub"))
	if err != nil {
		t.Fatal(err)
	}
	hub.StopAfter(t, "hub")
	e2etest.Eventually(t, "both objects are watched", func() error {
		watched := map[string]bool{}
		for _, e := range s.requests("hub") {
			if e.Verb == "watch" && e.ResponseStatus != nil && e.ResponseStatus.Code == 200 {
				watched[e.ObjectRef.Resource] = true
			}
		}
		if !watched["secrets"] || !watched["configmaps"] {
			return fmt.Errorf("%v", watched)
		}
		return nil
	})
	s.checkRights("hub", "spokewire-hub-templates")
}
