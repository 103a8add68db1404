// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withoutNulls returns a manifest without the nulls that templates write into fields that Apply
// reads. It handles them as the API server does: a null field is removed, and a null string is
// empty. The given manifest is not changed.
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
