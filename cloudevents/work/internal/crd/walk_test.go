// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// The tests of this package derive their objects from the CRD: a sample with every member, and for
// each constraint a copy that breaks only that constraint.

// path is the path to a value: member names and, for the only item of each list, 0.
type path []any

func (p path) String() string {
	var b strings.Builder
	for _, e := range p {
		if name, ok := e.(string); ok {
			b.WriteString("." + name)
		} else {
			fmt.Fprintf(&b, "[%d]", e)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

func (p path) with(e any) path { return append(slices.Clone(p), e) }

func root(t testing.TB) *spec.Schema {
	t.Helper()
	return crd.Schema()
}

// walk calls f for the schema s at a path and for each schema below it, parents first.
func walk(s *spec.Schema, at path, f func(path, *spec.Schema)) {
	f(at, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name]
		walk(&member, at.with(name), f)
	}
	if s.Items != nil {
		walk(s.Items.Schema, at.with(0), f)
	}
}

// sample returns a valid value with every member of the schema.
func sample(t testing.TB, at path, s *spec.Schema) any {
	t.Helper()
	if _, ok := s.Extensions["x-kubernetes-embedded-resource"]; ok {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Pattern == "^work-agent":
		return "work-agent-a"
	case s.Format == "date-time":
		return "2026-01-01T00:00:00Z"
	}
	switch s.Type[0] {
	case "string":
		return "a" // also fits all other patterns
	case "boolean":
		return true
	case "integer":
		return int64(1)
	case "array":
		return []any{sample(t, at.with(0), s.Items.Schema)}
	case "object":
		out := map[string]any{}
		for name := range s.Properties {
			member := s.Properties[name]
			out[name] = sample(t, at.with(name), &member)
		}
		return out
	}
	t.Fatalf("%s has type %v: extend the tests", at, s.Type)
	return nil
}

// lookup returns the container of the value at a path, and the last element of the path. The path
// starts below value.
func lookup(value any, at path) (container any, last any) {
	for _, e := range at[:len(at)-1] {
		if name, ok := e.(string); ok {
			value = value.(map[string]any)[name]
		} else {
			value = value.([]any)[0]
		}
	}
	return value, at[len(at)-1]
}

// broken returns the sample of a member with the value at a path replaced by the result of f. If f
// returns false, the value is deleted.
func broken(t testing.TB, member string, at path, f func(any) (any, bool)) any {
	t.Helper()
	s := root(t).Properties[member]
	value := sample(t, path{member}, &s)
	container, last := lookup(map[string]any{member: value}, at)
	switch c := container.(type) {
	case map[string]any:
		name := last.(string)
		next, keep := f(c[name])
		if keep {
			c[name] = next
		} else {
			delete(c, name)
		}
	case []any:
		c[0], _ = f(c[0])
	}
	return value
}

// fataler has the common methods of testing.TB and rapid.T that the helpers need.
type fataler interface {
	Helper()
	Fatal(...any)
}

func encode(t fataler, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
