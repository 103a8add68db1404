// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// TestDefinitionEqualsModule: the embedded CRD equals the CRD of the API module that go.mod names.
func TestDefinitionEqualsModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "open-cluster-management.io/api/work/v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "0000_00_work.open-cluster-management.io_manifestworks.crd.yaml")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, crd.Definition) {
		t.Errorf("manifestworks.crd.yaml is not %s: copy it, then run the other tests", file)
	}
}

// TestKeywords: the schema uses only keywords that the code or the other tests support.
func TestKeywords(t *testing.T) {
	known := []string{
		"default", "description", "enum", "format", "items", "maxLength", "minLength", "minimum", "pattern", "properties",
		"required", "type", "x-kubernetes-embedded-resource", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
		"x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
	}
	var file struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(crd.Definition, &file); err != nil {
		t.Fatal(err)
	}
	var visit func(at string, s map[string]any)
	visit = func(at string, s map[string]any) {
		for keyword, value := range s {
			if !slices.Contains(known, keyword) {
				t.Errorf("%s has %s: cover it", at, keyword)
			}
			if keyword == "x-kubernetes-list-type" && value != "map" {
				t.Errorf("%s is a list of type %v: cover it", at, value)
			}
		}
		if properties, ok := s["properties"].(map[string]any); ok {
			for name, member := range properties {
				visit(at+"."+name, member.(map[string]any))
			}
		}
		if items, ok := s["items"].(map[string]any); ok {
			visit(at+"[]", items)
		}
	}
	for _, v := range file.Spec.Versions {
		visit("", v.Schema.OpenAPIV3Schema)
	}
	if n := len(file.Spec.Versions); n != 1 {
		t.Errorf("the CRD has %d versions", n)
	}
}

// TestRulesAreWritten: each CEL rule of the CRD has its equivalent in Go, and there are no other
// rules in Go.
func TestRulesAreWritten(t *testing.T) {
	var inCRD []string
	var visit func(any)
	visit = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			if rule, ok := x["rule"].(string); ok {
				inCRD = append(inCRD, rule)
			}
			for _, v := range x {
				visit(v)
			}
		case []any:
			for _, v := range x {
				visit(v)
			}
		}
	}
	data, err := yaml.YAMLToJSON(crd.Definition)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	visit(all)
	for _, rule := range inCRD {
		if crd.CELRules[rule] == nil {
			t.Errorf("the rule %s has no equivalent", rule)
		}
	}
	if len(crd.CELRules) != len(inCRD) {
		t.Errorf("%d rules in Go, %d in the CRD", len(crd.CELRules), len(inCRD))
	}
}
