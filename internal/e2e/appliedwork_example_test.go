// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
