// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// breach is one way to break one constraint.
type breach struct {
	at        path // of the invalid value
	kind      string
	value     func(any) (any, bool)
	defaulted bool // in JSON, a default repairs it
}

func to(v any) func(any) (any, bool) { return func(any) (any, bool) { return v, true } }
func gone(any) (any, bool)           { return nil, false }
func withMember(name, v string) func(any) (any, bool) {
	return func(x any) (any, bool) {
		out := maps.Clone(x.(map[string]any))
		out[name] = v
		return out, true
	}
}

// breaches returns the breaches of one schema.
func breaches(at path, s *spec.Schema) []breach {
	var out []breach
	add := func(at path, kind string, value func(any) (any, bool)) {
		out = append(out, breach{at: at, kind: kind, value: value})
	}
	if len(s.Enum) > 0 {
		add(at, "enum", to("!"))
		add(at, "enum, empty", to(""))
	}
	if s.Pattern != "" {
		add(at, "pattern", to("!"))
	}
	if s.MinLength != nil {
		add(at, "minLength", to(strings.Repeat("a", int(*s.MinLength)-1)))
	}
	if s.MaxLength != nil {
		add(at, "maxLength", to(strings.Repeat("a", int(*s.MaxLength)+1)))
	}
	if s.Minimum != nil {
		add(at, "minimum", to(int64(*s.Minimum)-1))
	}
	for _, name := range s.Required {
		out = append(out, breach{at.with(name), "required", gone, s.Properties[name].Default != nil})
	}
	if s.Extensions["x-kubernetes-list-type"] == "map" {
		add(at, "list of type map", func(x any) (any, bool) { return append(slices.Clone(x.([]any)), x.([]any)[0]), true })
	}
	if s.Extensions["x-kubernetes-validations"] != nil {
		add(at, "rule", func(x any) (any, bool) {
			y, _ := withMember("condition", "")(x)
			return withMember("type", "CEL")(y)
		})
	}
	if s.Extensions["x-kubernetes-embedded-resource"] != nil {
		add(at.with("apiVersion"), "embedded resource", gone)
		add(at.with("kind"), "embedded resource", gone)
		add(at.with("kind"), "embedded resource", to("_"))
		add(at.with("apiVersion"), "embedded resource", to("a/b/c"))
		add(at.with("metadata"), "embedded resource", to(map[string]any{"name": "a/b"}))
		add(at.with("metadata"), "embedded resource", to(map[string]any{"namespace": "A"}))
		add(at.with("metadata"), "embedded resource", to(map[string]any{"labels": map[string]any{"-": "-"}}))
	}
	return out
}

// notTyped are the constraints that a Go value cannot break. The typed check need not find them,
// because patches and applies are checked as JSON.
var notTyped = map[string]string{
	"spec.deleteOption.selectivelyOrphans.orphaningRules[0].name required":     "Go encodes an empty one",
	"spec.deleteOption.selectivelyOrphans.orphaningRules[0].resource required": "Go encodes an empty one",
	"spec.manifestConfigs[0].conditionRules[0].condition required":             "Go encodes an empty one",
	"spec.manifestConfigs[0].feedbackRules[0].jsonPaths[0].name required":      "Go encodes an empty one",
	"spec.manifestConfigs[0].feedbackRules[0].jsonPaths[0].path required":      "Go encodes an empty one",
	"spec.manifestConfigs[0].resourceIdentifier required":                      "Go encodes an empty one",
	"spec.manifestConfigs[0].resourceIdentifier.name required":                 "Go encodes an empty one",
	"spec.manifestConfigs[0].resourceIdentifier.resource required":             "Go encodes an empty one",
	"spec.manifestConfigs[0].feedbackScrapeType enum, empty": "Go leaves an empty one out, and it " +
		"gets the default",
	"spec.manifestConfigs[0].updateStrategy.type enum, empty": "Go leaves an empty one out, and it " +
		"gets the default",
	"spec.manifestConfigs[0].updateStrategy.type required": "it gets the default",
}

// TestConstraints breaks each constraint of the CRD. The schema's check must report the path of
// each breach, unless a default repairs it. The typed check must reject the breach, unless notTyped
// lists it.
func TestConstraints(t *testing.T) {
	count, used := 0, map[string]bool{}
	for _, member := range []string{"spec", "status"} {
		s := root(t).Properties[member]
		good := encode(t, sample(t, path{member}, &s))
		if _, errs := crd.Member(member, good); len(errs) > 0 {
			t.Fatalf("the sample of the %s is not valid: %v", member, errs)
		}
		if !typedFits(t, member, good) {
			t.Fatalf("the typed check refuses the sample of the %s", member)
		}
		walk(&s, path{member}, func(at path, s *spec.Schema) {
			for _, b := range breaches(at, s) {
				count++
				name := b.at.String() + " " + b.kind
				data := encode(t, broken(t, member, b.at, b.value))
				if _, errs := crd.Member(member, data); found(errs, b.at) == b.defaulted {
					t.Errorf("%s: the schema finds %v", name, errs)
				}
				if _, excepted := notTyped[name]; excepted {
					used[name] = true
				}
				if fits := typedFits(t, member, data); fits != (notTyped[name] != "") {
					t.Errorf("%s: the typed check returns %v; exception: %q", name, fits, notTyped[name])
				}
			}
		})
	}
	if count < 60 {
		t.Errorf("the CRD has %d constraints only: does the walk still work", count)
	}
	for name := range notTyped {
		if !used[name] {
			t.Errorf("the exception %s is for a constraint that is not there", name)
		}
	}
}

// found reports whether an error is at a path, above it or below it.
func found(errs field.ErrorList, at path) bool {
	for _, err := range errs {
		if err.Field != "<nil>" && (strings.HasPrefix(err.Field, at.String()) || strings.HasPrefix(at.String(), err.Field)) {
			return true
		}
	}
	return false
}

// typedFits decodes a value like a patch, and checks it like a write.
func typedFits(t *testing.T, member string, data []byte) bool {
	t.Helper()
	if member == "status" {
		var status workv1.ManifestWorkStatus
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &status); err != nil {
			return false
		}
		return crd.Complete(&status, data) && crd.StatusFits(&status)
	}
	var s workv1.ManifestWorkSpec
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &s); err != nil {
		return false
	}
	crd.Default(&s)
	return crd.SpecFits(&s)
}
