// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fieldset works with the sets of fields that the API server records in
// metadata.managedFields. A set is the decoded JSON of FieldsV1: "f:name" is a field, "k:{...}" a
// list item with a key, "v:..." an item of a set, and "." the object or item itself.
package fieldset

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Of returns the fields that the given managers own, without those of subresources.
func Of(obj *unstructured.Unstructured, is func(manager string) bool) map[string]any {
	return Merged(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return is(e.Manager) && e.Subresource == ""
	})
}

// Merged returns the fields of the entries for which is returns true.
func Merged(entries []metav1.ManagedFieldsEntry, is func(metav1.ManagedFieldsEntry) bool) map[string]any {
	fields := map[string]any{}
	for _, e := range entries {
		var set map[string]any
		if is(e) && e.FieldsV1 != nil && json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) == nil {
			merge(fields, set)
		}
	}
	return fields
}

// keysOf returns the keys of a list item, given the name of its fields.
func keysOf(name string) (keys map[string]any, ok bool) {
	text, ok := strings.CutPrefix(name, "k:")
	ok = ok && json.Unmarshal([]byte(text), &keys) == nil
	return keys, ok
}

func merge(into, from map[string]any) {
	for name, value := range from {
		old, ok := into[name].(map[string]any)
		sub, both := value.(map[string]any)
		if !ok {
			into[name] = value
		} else if both {
			merge(old, sub)
		}
	}
}

// AsApplied returns managedFields with all fields of our managers in one Apply entry of manager, so
// the next apply can remove fields, which another entry would keep. The result is nil if no change
// is needed.
func AsApplied(
	entries []metav1.ManagedFieldsEntry, manager string, ours func(manager string) bool,
) []metav1.ManagedFieldsEntry {
	var result, own []metav1.ManagedFieldsEntry
	isApplied := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply
	}
	for _, e := range entries {
		if e.Subresource == "" && ours(e.Manager) {
			own = append(own, e)
		} else {
			result = append(result, e)
		}
	}
	if len(own) == 0 || len(own) == 1 && isApplied(own[0]) {
		return nil
	}
	text, err := json.Marshal(Merged(own, func(metav1.ManagedFieldsEntry) bool { return true }))
	if err != nil {
		return nil // does not happen: the fields were decoded from JSON
	}
	joined := own[max(slices.IndexFunc(own, isApplied), 0)]
	joined.Manager, joined.Operation = manager, metav1.ManagedFieldsOperationApply
	joined.FieldsV1 = metav1.NewFieldsV1(string(text))
	return append(result, joined)
}

// OrNone returns managedFields for a patch: the API server ignores an empty list, but one empty
// entry removes all.
func OrNone(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if len(entries) == 0 {
		return []metav1.ManagedFieldsEntry{{}}
	}
	return entries
}
