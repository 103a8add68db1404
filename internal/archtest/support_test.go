// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// pins maps software in the table of SUPPORT.md to the folder of a go.mod and the module with its
// version.
var pins = map[string][2]string{
	"Kubernetes, API server and controller manager": {"internal/kube", "k8s.io/kubernetes"},
	"client-go":                       {".", "k8s.io/client-go"},
	"controller-runtime":              {".", "sigs.k8s.io/controller-runtime"},
	"OCM, API of works":               {".", "open-cluster-management.io/api"},
	"OCM, work agent and gRPC server": {"internal/ocm", "open-cluster-management.io/ocm"},
	"OCM, sdk-go":                     {"internal/e2e", "open-cluster-management.io/sdk-go"},
	"Maestro":                         {"internal/maestro", "github.com/openshift-online/maestro"},
	"Karmada":                         {"internal/peers", "github.com/karmada-io/karmada"},
	"etcd, server":                    {"internal/e2e", "go.etcd.io/etcd/server/v3"},
	"etcd, client":                    {".", "go.etcd.io/etcd/client/v3"},
}

var supported = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// TestSupportMatrix compares the tested versions in SUPPORT.md with the modules and workflows that the
// tests use, and requires existing tests.
func TestSupportMatrix(t *testing.T) {
	_, table, found := strings.Cut(readFile(t, "SUPPORT.md"), "## Tested versions\n")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("SUPPORT.md has no section Tested versions")
	}
	var ci workflow
	readYAML(t, ".github/workflows/ci.yml", &ci)
	image := ci.Jobs["all"].Container.Image
	language, debian, _ := strings.Cut(strings.TrimPrefix(image, "golang:"), "-")
	tests, checked := readTests(t), 0
	for _, row := range supported.FindAllStringSubmatch(table, -1)[1:] {
		software, version, shown := row[1], row[2], row[3]
		if pin, ok := pins[software]; ok {
			checked++
			if want := pinnedVersion(t, pin[0], pin[1]); want != version {
				t.Errorf("%s: SUPPORT.md has %s, %s/go.mod has %s %s", software, version, pin[0], pin[1], want)
			}
		}
		if strings.Contains(version, "bookworm") && debian != "bookworm" {
			t.Errorf("%s: %s, but CI runs in the image %s", software, version, image)
		}
		if software == "Go" && (version != language || !strings.Contains(readFile(t, "go.mod"), "\ngo "+version+".")) {
			t.Errorf("Go %s differs from the image %s of CI, or from go.mod", version, image)
		}
		references := testReference.FindAllStringSubmatch(shown, -1)
		if len(references) == 0 && !strings.HasPrefix(shown, "all") && shown != "the same" {
			t.Errorf("%s: no test", software)
		}
		for _, reference := range references {
			if problem := tests.missing(reference[1], reference[2]); problem != "" {
				t.Errorf("%s: %s", software, problem)
			}
		}
	}
	if checked != len(pins) {
		t.Errorf("compared %d of %d versions: a row has another name", checked, len(pins))
	}
}

// pinnedVersion returns the version of a module in a go.mod.
func pinnedVersion(t *testing.T, folder, module string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^(?:require |\t)` + regexp.QuoteMeta(module) + ` (v\S+)`)
	match := line.FindStringSubmatch(readFile(t, path.Join(folder, "go.mod")))
	if match == nil {
		t.Fatalf("%s/go.mod has no %s", folder, module)
	}
	return match[1]
}
