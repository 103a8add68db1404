// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customizations_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/examples/internal/customizations"
)

const inCEL = `apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: pools}
spec:
  targets: [{apiVersion: example.com/v1, kind: Pool}]
  health: "true"
`

func inLua(name string) string {
	return fmt.Sprintf(`apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: %s}
spec:
  target: {apiVersion: example.com/v1, kind: Press}
  customizations:
    healthInterpretation: {luaScript: "function InterpretHealth() return %v end"}
    dependencyInterpretation:
      luaScript: |
        function GetDependencies()
          return {{apiVersion = "v1", kind = "Secret", namespace = "x", name = "%s"}}
        end
`, name, name == "a", name)
}

// write writes files to a new folder and returns its path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestSeveralLuaFiles checks that customizations for one kind in several files work like those in
// one file. The first one by name is used, and the dependencies of all are joined.
func TestSeveralLuaFiles(t *testing.T) {
	list := "apiVersion: v1\nkind: ResourceInterpreterCustomizationList\nitems:\n- " +
		strings.ReplaceAll(strings.TrimSpace(inLua("a")), "\n", "\n  ") + "\n"
	i, err := customizations.Open(write(t, map[string]string{"1.yaml": inLua("b"), "2.yaml": list, "3.yml": inCEL}))
	if err != nil {
		t.Fatal(err)
	}
	press := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Press", "metadata": map[string]any{"name": "p", "namespace": "x"},
	}}
	if ok, err := i.Health(t.Context(), press); !ok || err != nil {
		t.Errorf("%v, %v: want the answer of a", ok, err)
	}
	found, err := i.Dependencies(t.Context(), press)
	names := ""
	for _, d := range found {
		names += d.Name
	}
	if names != "ab" || err != nil {
		t.Errorf("dependencies %q, %v", names, err)
	}
	var kinds []string
	for _, gvk := range i.Kinds {
		kinds = append(kinds, gvk.Kind)
	}
	if d := cmp.Diff([]string{"Pool", "Press"}, kinds); d != "" {
		t.Error(d)
	}
}

// TestErrors checks that errors name the flag and the path, or the position in the file.
func TestErrors(t *testing.T) {
	folder := write(t, map[string]string{
		"empty.yaml": "", "comment.yaml": "# nothing\n---\n", "both.yaml": inCEL + "---\n" + inLua("a"),
		"cel.yaml": strings.Replace(inCEL, `"true"`, "object.", 1),
		"lua.yaml": strings.Replace(inLua("a"), "return true", "return . ", 1),
	})
	empty := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	for path, want := range map[string]string{
		at("nothere"):      "--customizations " + at("nothere") + ": no such file or directory",
		empty:              "--customizations " + empty + ": the folder has no .yaml, .yml or .json files",
		at("empty.yaml"):   "--customizations " + at("empty.yaml") + ": the file has no customizations",
		at("comment.yaml"): "--customizations " + at("comment.yaml") + ": the file has no customizations",
		at("both.yaml"): "--customizations " + at("both.yaml") +
			": the file has customizations in CEL and in Lua: put them into two files",
		at("cel.yaml"): at("cel.yaml") + ":6:",
		at("lua.yaml"): at("lua.yaml") +
			": ResourceInterpreterCustomization a: spec.customizations.healthInterpretation.luaScript:1:",
	} {
		_, err := customizations.Open(path)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.HasPrefix(want, "--") && err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
