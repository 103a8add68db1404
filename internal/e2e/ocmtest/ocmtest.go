// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package ocmtest finds the programs and the manifests of Open Cluster Management (OCM) that
// `make ocm` builds.
package ocmtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

// HubNamespace is the namespace of OCM's programs on a hub.
const HubNamespace = "open-cluster-management-hub"

// assets returns the folder with OCM's programs and manifests.
func assets(t testing.TB) string {
	t.Helper()
	script := filepath.Join("..", "..", "ocm", "build.sh") // only the script has the version
	out, err := exec.Command("bash", script, "--dir").Output()
	if err != nil {
		t.Fatalf("ocmtest: %s --dir: %v", script, err)
	}
	folder := strings.TrimSpace(string(out))
	for _, name := range []string{"ocm-work", "ocm-server"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Fatalf("ocmtest: %v: build the programs of OCM with internal/ocm/build.sh or `make ocm`", err)
		}
	}
	return folder
}

// Program returns the path of ocm-work or ocm-server. The test fails if the programs are not built.
func Program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(assets(t), name)
}

// CRDs returns the files of OCM's CRDs with these names.
func CRDs(t testing.TB, names ...string) (files []string) {
	t.Helper()
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(assets(t), "manifests", "crds", "*_"+name+".crd.yaml"))
		if err != nil || len(found) != 1 {
			t.Fatalf("ocmtest: OCM has the CRDs %v with the name %s, %v", found, name, err)
		}
		files = append(files, found...)
	}
	return files
}

// Render decodes a manifest of OCM, which is a template. cluster is the name of the managed cluster
// in manifests for agents.
func Render(t testing.TB, file, cluster string, into any) {
	t.Helper()
	manifest, err := template.ParseFiles(filepath.Join(assets(t), "manifests", file))
	if err != nil {
		t.Fatalf("ocmtest: %v", err)
	}
	var text bytes.Buffer
	if err := manifest.Execute(&text, map[string]any{
		"ClusterManagerName": "cluster-manager", "ClusterManagerNamespace": HubNamespace,
		"ManagedClusterName": cluster, "Labels": map[string]string{},
	}); err != nil {
		t.Fatalf("ocmtest: %v", err)
	}
	if err := yaml.UnmarshalStrict(text.Bytes(), into); err != nil {
		t.Fatalf("ocmtest: %s: %v", file, err)
	}
}
