// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// managed is a cluster that an example program works on.
type managed struct {
	t     *testing.T
	admin dynamic.Interface
}

// get returns the live object of a manifest, or nil if it does not exist.
func (m *managed) get(manifest string) *unstructured.Unstructured {
	m.t.Helper()
	obj := m.object(manifest)
	live, err := m.client(obj).Get(context.Background(), obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return live
}

// existing creates an object that no work contains.
func (m *managed) existing(manifest string) *unstructured.Unstructured {
	m.t.Helper()
	obj := m.object(manifest)
	live, err := m.client(obj).Create(m.t.Context(), obj, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		m.t.Fatal(err)
	}
	return live
}

func (m *managed) object(manifest string) *unstructured.Unstructured {
	m.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(manifest)); err != nil {
		m.t.Fatal(err)
	}
	return obj
}

func (m *managed) client(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind()) // the plurals of these kinds are regular
	if ns := obj.GetNamespace(); ns != "" {
		return m.admin.Resource(gvr).Namespace(ns)
	}
	return m.admin.Resource(gvr)
}

func configMapText(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"value":%q}}`, name, value)
}

func clusterRoleText(name string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, name)
}

// TestQuickstartOnACluster: objects that the quickstart creates on a real cluster are deleted with
// it, and earlier objects stay.
func TestQuickstartOnACluster(t *testing.T) {
	t.Parallel()
	broker := mosquitto.Start(t, mosquitto.Options{})
	cluster := kube.Start(t, kube.Options{})
	cluster.StartControllerManager()
	m := &managed{t: t, admin: dynamic.NewForConfigOrDie(cluster.Config())}
	quickstart := func(t *testing.T, want string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go",
			append([]string{"run", "./examples/quickstart", "--kubeconfig", cluster.Kubeconfig(), "--broker", broker.URL()},
				args...)...)
		command.Dir = "../.."
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	quickstart(t, "\nDone. 6 files for 1 cluster")
	for _, manifest := range []string{
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"quickstart"}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"greetings.quickstart.example.com"}}`,
	} {
		if m.get(manifest) != nil {
			t.Errorf("the quickstart has left %s", manifest)
		}
	}

	folder, before := t.TempDir(), m.existing(configMapText("found", "theirs"))
	for name, text := range map[string]string{"found.json": configMapText("found", "ours"),
		"new.json": configMapText("new", "ours")} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	quickstart(t, "\nDone. 2 files for 1 cluster", "--manifests", folder)
	live := m.get(configMapText("found", ""))
	if live == nil || live.GetUID() != before.GetUID() || len(live.GetOwnerReferences()) > 0 {
		t.Errorf("what was there before is %v", live)
	}
	if m.get(configMapText("new", "")) != nil {
		t.Error("what was not is there")
	}
}
