// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what a CustomResourceDefinition says of the objects that it defines.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// announcedKinds returns the kinds that definitions among the manifests bring.
func announcedKinds(manifests []Manifest) map[schema.GroupVersionKind]kind {
	kinds := map[schema.GroupVersionKind]kind{}
	for i := range manifests {
		crd := manifests[i].Object
		if crd == nil || crd.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			continue
		}
		text := func(path ...string) string {
			s, _, _ := unstructured.NestedString(crd.Object, path...) // what is not there, the API server will miss
			return s
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			name, _ := version["name"].(string)
			if served, _ := version["served"].(bool); served {
				gv := schema.GroupVersion{Group: text("spec", "group"), Version: name}
				kinds[gv.WithKind(text("spec", "names", "kind"))] = kind{
					resource: gv.WithResource(text("spec", "names", "plural")), namespaced: text("spec", "scope") == "Namespaced",
				}
			}
		}
	}
	return kinds
}
