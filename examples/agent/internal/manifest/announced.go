// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind describes a kind by its CustomResourceDefinition.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// announcedKinds returns the kinds that CRDs among the manifests define.
func announcedKinds(manifests []Manifest) map[schema.GroupVersionKind]kind {
	kinds := map[schema.GroupVersionKind]kind{}
	for i := range manifests {
		crd := manifests[i].Object
		if crd == nil || crd.GroupVersionKind().GroupKind() != (schema.GroupKind{
			Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition",
		}) {
			continue
		}
		text := func(path ...string) string {
			s, _, _ := unstructured.NestedString(crd.Object, path...) // the API server rejects a CRD without it
			return s
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			name, _ := version["name"].(string)
			if served, _ := version["served"].(bool); served {
				gv := schema.GroupVersion{Group: text("spec", "group"), Version: name}
				kinds[gv.WithKind(text("spec", "names", "kind"))] = kind{
					resource:   gv.WithResource(text("spec", "names", "plural")),
					namespaced: text("spec", "scope") == "Namespaced",
				}
			}
		}
	}
	return kinds
}
