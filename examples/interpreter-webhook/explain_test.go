// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExplainCustomized checks kinds that only customizations support: in CEL and in Lua, from a
// folder and from files.
func TestExplainCustomized(t *testing.T) {
	const certificate = `Certificate prod/shop
  replicas      -
  requirements  -
  components    -
  healthy       false (customization)
  status        {"conditions":[{"reason":"Issuing","status":"False","type":"Ready"}]} (kinds)
  dependencies  [{"apiVersion":"v1","kind":"Secret","namespace":"prod","name":"shop-tls"}] (customization)
`
	const machine = `Machine prod/press
  replicas      2 (customization)
  requirements  null (customization)
  components    [{"name":"press","replicas":2},{"name":"belt","replicas":1}] (customization)
  healthy       true (customization)
  status        {"running":2} (kinds)
  dependencies  -
`
	const unknown = `Machine prod/press
  replicas      -
  requirements  -
  components    -
  healthy       -
  status        {"running":2} (kinds)
  dependencies  -
`
	const folder = "testdata/customizations"
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{[]string{folder}, certificate + machine},
		{[]string{folder + "/machines.yaml", folder + "/certificates.yaml"}, certificate + machine},
		{[]string{folder + "/certificates.yaml"}, certificate + unknown},
	} {
		args := []string{"explain"}
		for _, path := range test.paths {
			args = append(args, "--customizations", path)
		}
		var out bytes.Buffer
		if err := try(t.Context(), append(args, "testdata/customized.yaml"), &out); err != nil ||
			out.String() != test.want {
			t.Errorf("%q: %v\n%s\nwant\n%s", test.paths, err, &out, test.want)
		}
	}
}

// TestExplainKinds checks that kinds of widely used projects need no customization, and that the
// default reads the conditions of other kinds.
func TestExplainKinds(t *testing.T) {
	const want = `Rollout prod/web
  replicas      2 (kinds)
  requirements  {"resourceRequest":{"cpu":"100m"},"namespace":"prod"} (kinds)
  components    -
  healthy       false (kinds)
  status        {"generation":3,"observedGeneration":"3","phase":"Paused"} (kinds)
  dependencies  [{"apiVersion":"v1","kind":"ConfigMap","namespace":"prod","name":"settings"},` +
		`{"apiVersion":"v1","kind":"Service","namespace":"prod","name":"web-stable"}] (kinds)
HelmRepository prod/charts
  replicas      -
  requirements  -
  components    -
  healthy       true (kinds)
  status        {"conditions":[{"status":"True","type":"Ready"}]} (kinds)
  dependencies  -
Deployment prod/api
  replicas      1 (native)
  requirements  {"namespace":"prod"} (native)
  components    -
  healthy       false (native)
  status        {} (native)
  dependencies  [] (native)
`
	var out bytes.Buffer
	if err := try(t.Context(), []string{"explain", "testdata/kinds.yaml"}, &out); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}
}

// TestExplainBadCustomization checks that an error names the file and the position in it.
func TestExplainBadCustomization(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "c.yaml")
	for _, test := range []struct{ reason, content, path, want string }{
		{"no file", "", filepath.Join(folder, "other.yaml"), "no such file or directory"},
		{"an empty folder", "", t.TempDir(), "has no .yaml, .yml or .json files"},
		{"CEL", "apiVersion: config.karmada.io/v1alpha1\nkind: InterpreterCustomization\nmetadata: {name: c}\nspec:\n" +
			"  targets: [{apiVersion: v1, kind: A}]\n  health: object.spec +\n", file, file + ":6:"},
		{"Lua", "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: c}\nspec:\n" +
			"  target: {apiVersion: v1, kind: A}\n  customizations:\n    healthInterpretation: {luaScript: \"function " +
			"InterpretHealth(\"}\n", file, file + ": "},
		{"another kind", "apiVersion: v1\nkind: ConfigMap\n", folder, file + ":2:7: kind: "},
		{"no YAML", "a: [", folder, file + ":1:"},
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := try(t.Context(), []string{"explain", "--customizations", test.path, "testdata/customized.yaml"}, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.reason, err, test.want)
		}
	}
}
