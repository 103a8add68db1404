// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// TestWatcherPackageDoc runs the program of the package documentation on a real API server.
func TestWatcherPackageDoc(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../dynamicwatcher/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "// # ")
	var program strings.Builder
	for line := range strings.Lines(before) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok || line == "//\n" {
			program.WriteString(strings.TrimPrefix(code, "//"))
		}
	}
	folder := t.TempDir()
	source, path := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cluster := kube.Shared(t)
	client := newWriter(t, cluster)
	client.setSecret("default", "password", "1")
	command := exec.Command(path)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("the program printed %q, want %q: %v", lines.Text(), want, lines.Err())
		}
	}
	defer func() { _ = command.Process.Kill() }()
	expect("p depends on password which was Initial")
	client.setConfigMap("default", "settings", "1")
	if lines.Scan(); lines.Text() != "p depends on settings which was Added" {
		// If the watch of the settings started after the first reconcile, the settings may have
		// been created and deleted in between.
		if lines.Text() != "p depends on settings which was Deleted" {
			t.Fatalf("the program printed %q: %v", lines.Text(), lines.Err())
		}
		expect("p depends on settings which was Added")
	}
	client.deleteConfigMap("default", "settings")
	expect("p depends on settings which was Deleted")
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}
