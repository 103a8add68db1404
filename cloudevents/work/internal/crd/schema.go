// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd implements the ManifestWork CRD: defaults, constraints, and the merge of applied
// lists.
//
// It has two implementations. The embedded schema of the CRD serves rare cases that need exact
// results: server-side apply, and the errors of an invalid object. Typed Go functions serve every
// write. [Default] sets the same defaults. [SpecFits] and [StatusFits] report, with a few
// comparisons, that the schema would find no errors. Tests walk the CRD and prove that both agree.
package crd

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

//go:embed manifestworks.crd.yaml
var definition []byte

//go:embed objectmeta.yaml
var objectMeta []byte

// Schema returns the CRD's schema of version v1. Callers must not change it: it is shared. It
// panics if the embedded CRD is invalid, which depends on no input.
var Schema = sync.OnceValue(func() *spec.Schema {
	s, err := parse(definition)
	if err != nil {
		panic(err)
	}
	return s
})

func parse(definition []byte) (*spec.Schema, error) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema json.RawMessage }
			}
		}
	}
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, fmt.Errorf("read the CRD: %w", err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name != "v1" {
			continue
		}
		out := &spec.Schema{}
		if err := json.Unmarshal(v.Schema.OpenAPIV3Schema, out); err != nil {
			return nil, fmt.Errorf("read the CRD's schema: %w", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("the CRD has no version v1")
}

// extension returns one of the schema's x-kubernetes extensions, or the zero value.
func extension[T any](s *spec.Schema, name string) T {
	v, _ := s.Extensions[name].(T)
	return v
}

const (
	listType        = "x-kubernetes-list-type"
	listMapKeys     = "x-kubernetes-list-map-keys"
	embedded        = "x-kubernetes-embedded-resource"
	preserveUnknown = "x-kubernetes-preserve-unknown-fields"
	validations     = "x-kubernetes-validations"
)

// items returns the schema of a list's items, or nil.
func items(s *spec.Schema) *spec.Schema {
	if s == nil || s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// property returns the schema of a member, or nil if the schema does not have it.
func property(s *spec.Schema, name string) *spec.Schema {
	if s == nil {
		return nil
	}
	if p, ok := s.Properties[name]; ok {
		return &p
	}
	return nil
}
