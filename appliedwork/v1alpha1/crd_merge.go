// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mergeCRD returns live with our v1alpha1 in place of an older one, and otherwise as it is.
func mergeCRD(live *unstructured.Unstructured) (merged *unstructured.Unstructured, changed bool) {
	if revisionOf(live) >= schemaRevision {
		return live, false
	}
	ours := CRD()
	next := versionsOf(ours)[0]
	merged = live.DeepCopy()
	versions := versionsOf(merged)
	i := slices.IndexFunc(versions, func(v map[string]any) bool { return v["name"] == next["name"] })
	switch {
	case i < 0:
		next["storage"] = false // the CRD already has a version for storage
		versions = append(versions, next)
	case knowsMore(schemaOf(versions[i]), schemaOf(next)):
		return live, false
	default:
		// The stored version is the decision of the installer of the CRD.
		next["storage"], next["served"] = versions[i]["storage"], true
		versions[i] = next
	}
	list := make([]any, len(versions))
	for i, v := range versions {
		list[i] = v
	}
	if err := unstructured.SetNestedSlice(merged.Object, list, "spec", "versions"); err != nil {
		return live, false
	}
	labels := merged.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, ours.GetLabels())
	merged.SetLabels(labels)
	setSchemaRevision(merged, schemaRevision)
	return merged, true
}

// knowsMore reports whether a has any property that b does not have.
func knowsMore(a, b map[string]any) bool {
	for name, value := range a {
		sub, ok := value.(map[string]any)
		if !ok {
			continue
		}
		other, ok := b[name].(map[string]any)
		if name == "properties" {
			for property := range sub {
				if _, known := other[property]; !known {
					return true
				}
			}
		}
		if ok && knowsMore(sub, other) {
			return true
		}
	}
	return false
}

func versionsOf(crd *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions := make([]map[string]any, 0, len(list))
	for _, v := range list {
		if v, ok := v.(map[string]any); ok {
			versions = append(versions, v)
		}
	}
	return versions
}

func schemaOf(version map[string]any) map[string]any {
	s, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	return s
}

func revisionOf(crd *unstructured.Unstructured) int {
	n, err := strconv.Atoi(crd.GetAnnotations()[annotationSchema])
	if err != nil {
		return 0
	}
	return n
}

func setSchemaRevision(crd *unstructured.Unstructured, revision int) {
	annotations := crd.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationSchema] = strconv.Itoa(revision)
	crd.SetAnnotations(annotations)
}
