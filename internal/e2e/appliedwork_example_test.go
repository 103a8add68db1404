// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestAppliedWorkExample runs the example with a folder, as a user does: files are added, changed,
// broken and removed. Ctrl-C deletes the AppliedWork.
func TestAppliedWorkExample(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{})
	cluster.StartControllerManager()
	m := &managed{t: t, admin: dynamic.NewForConfigOrDie(cluster.Config())}
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b, role := configMapText("a", "1"), configMapText("b", "1"), clusterRoleText("example")
	write("a.json", a)
	write("b.json", b)
	write("role.json", role)

	var mu sync.Mutex
	var output strings.Builder
	said := func(lines ...string) {
		t.Helper()
		eventually(t, strings.Join(lines, ", "), func() error {
			mu.Lock()
			defer mu.Unlock()
			rest := output.String()
			for _, line := range lines {
				_, after, ok := strings.Cut(rest, line+"\n")
				if !ok {
					return fmt.Errorf("no %q in:\n%s", line, output.String())
				}
				rest = after
			}
			output.Reset()
			return nil
		})
	}
	program := exec.Command(e2etest.Program(t, "applied-work", true), "--kubeconfig", cluster.Kubeconfig(), "--manifests",
		folder)
	read, written := io.Pipe()
	program.Stdout, program.Stderr = written, written
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := read.Read(buffer)
			mu.Lock()
			output.Write(buffer[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = program.Process.Kill(), written.Close() })

	said("applied: 3 created", "pruned:  nothing to do")
	write("a.json", configMapText("a", "2"))
	said("applied: 1 configured, 2 unchanged", "pruned:  nothing to do")
	write("b.json", "{")
	said("applied: 2 unchanged, 1 failed", "pruned:  1 blocked")
	if m.get(b) == nil {
		t.Error("what cannot be decoded was deleted")
	}
	if err := os.Remove(filepath.Join(folder, "b.json")); err != nil {
		t.Fatal(err)
	}
	said("applied: 2 unchanged", "pruned:  1 deleted")
	if m.get(b) != nil {
		t.Error("what was taken out is there")
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	said("delete the AppliedWork, and wait until 2 objects are deleted", "deleted: ConfigMap default/a",
		"deleted: ClusterRole.rbac.authorization.k8s.io example", "all objects are deleted")
	if err := program.Wait(); err != nil {
		t.Error(err)
	}
	for _, manifest := range []string{a, role} {
		if m.get(manifest) != nil {
			t.Errorf("%s is there", manifest)
		}
	}
}

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
