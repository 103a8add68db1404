// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withoutNulls returns a manifest without the nulls that templates write into fields that Apply
// reads. They mean what they mean to the API server: a field that is null is no field, and a text
// that is null is empty. The manifest that is given stays as it is.
func withoutNulls(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || obj.Object == nil {
		return obj
	}
	object := maps.Clone(obj.Object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		fillNulls(metadata, "labels", "annotations", "ownerReferences")
		object["metadata"] = metadata
	}
	if obj.GroupVersionKind().GroupKind() == secretKind {
		fillNulls(object, "data", "stringData")
	}
	return asUnstructured(object)
}

func fillNulls(object map[string]any, fields ...string) {
	for _, field := range fields {
		switch value := object[field].(type) {
		case nil:
			delete(object, field)
		case map[string]any:
			texts := maps.Clone(value)
			for name, text := range texts {
				if text == nil {
					texts[name] = ""
				}
			}
			object[field] = texts
		}
	}
}
