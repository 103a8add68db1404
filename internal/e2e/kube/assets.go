// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// assets returns the folder that holds all of the named programs. It is KUBEBUILDER_ASSETS if that
// is set, otherwise the folder that `make kube` builds into. If a program is missing, assets skips
// the test, or fails it when the environment variable CI is "true".
func assets(t testing.TB, programs ...string) string {
	t.Helper()
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		// Only the script has the versions, which are part of the folder's name.
		script := filepath.Join(repository(t), "internal", "kube", "build.sh")
		out, err := exec.Command("bash", script, "--dir").Output()
		if err != nil {
			t.Fatalf("kube: %s --dir: %v", script, err)
		}
		folder = strings.TrimSpace(string(out))
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(folder, program)); err == nil {
			continue
		}
		daemon.Missing(t, fmt.Sprintf("kube: there is no %s in %s: run `make kube` with KUBEBUILDER_ASSETS unset", program,
			folder))
	}
	return folder
}

// repository returns the root of the source tree: go test runs in the folder of
// the package, which is somewhere below it.
func repository(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "internal", "kube", "build.sh")); err == nil {
			return folder
		}
	}
	t.Fatal("kube: the test does not run inside the source tree")
	return ""
}

// ManifestWorkCRDs returns the folder with the CustomResourceDefinitions of
// ManifestWork and AppliedManifestWork, in the version of the API that go.mod has.
func ManifestWorkCRDs(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "open-cluster-management.io/api/work/v1").Output()
	if err != nil {
		t.Fatalf("kube: where is open-cluster-management.io/api: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// Program returns the path of a program that belongs to the servers, such as kubectl. The test is
// skipped if the program is missing.
func Program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(assets(t, name), name)
}
