// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Prune removes members that are not in the schema, and returns their paths in order, in the form
// of strict field validation. It ignores the root's members apiVersion, kind and metadata.
func Prune(x any, s *spec.Schema, path string) []string {
	var unknown []string
	switch x := x.(type) {
	case map[string]any:
		if s == nil || extension[bool](s, preserveUnknown) {
			return nil
		}
		for name, value := range x {
			at := name
			if path != "" {
				at = path + "." + name
			} else if name == "metadata" || name == "apiVersion" || name == "kind" {
				continue
			}
			member := property(s, name)
			if member == nil {
				delete(x, name)
				unknown = append(unknown, at)
				continue
			}
			unknown = append(unknown, Prune(value, member, at)...)
		}
	case []any:
		for i := range x {
			unknown = append(unknown, Prune(x[i], items(s), fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// dropNulls removes null members that are in the schema and have no default. The CRD has no
// nullable members.
func dropNulls(x any, s *spec.Schema) {
	switch x := x.(type) {
	case map[string]any:
		for name, value := range x {
			member := property(s, name)
			if value == nil && member != nil && member.Default == nil {
				delete(x, name)
				continue
			}
			dropNulls(value, member)
		}
	case []any:
		for i := range x {
			dropNulls(x[i], items(s))
		}
	}
}

// defaults sets the defaults of missing and null members.
func defaults(x any, s *spec.Schema) {
	switch x := x.(type) {
	case map[string]any:
		if s == nil {
			return
		}
		for name := range s.Properties {
			if d := s.Properties[name].Default; d != nil && x[name] == nil {
				x[name] = runtime.DeepCopyJSONValue(d)
			}
		}
		for name, value := range x {
			defaults(value, property(s, name))
		}
	case []any:
		for i := range x {
			defaults(x[i], items(s))
		}
	}
}
