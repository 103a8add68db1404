// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/internal/fielddiff"
)

// Remove removes the fields of a set with the given paths from a value, and reports whether it
// found them all. A path has the form of the API server: .spec.containers[name="a"].image.
func Remove(value map[string]any, fields map[string]any, paths []string) bool {
	left := map[string]bool{}
	for _, path := range paths {
		left[path] = true
	}
	remove(value, fields, "", left)
	return len(left) == 0
}

func remove(value any, fields map[string]any, path string, paths map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, node := range fields {
			name, ok := strings.CutPrefix(name, "f:")
			sub, exists := value[name]
			if !ok || !exists {
				continue
			}
			at := path + "." + name
			if paths[at] {
				delete(value, name)
				delete(paths, at)
				continue
			}
			if node, ok := node.(map[string]any); ok {
				remove(sub, node, at, paths)
			}
		}
	case []any:
		for name, node := range fields {
			keys, ok := keysOf(name)
			if node, isMap := node.(map[string]any); ok && isMap {
				for _, item := range itemsWith(value, keys) {
					remove(item, node, path+fielddiff.KeyPath(keys), paths)
				}
			}
		}
	}
}

// RemoveUnkept removes the fields from a value that are in fields and not in kept.
func RemoveUnkept(value any, fields, kept map[string]any) {
	for name, node := range fields {
		below, _ := node.(map[string]any)
		keptBelow, isKept := kept[name].(map[string]any)
		text, ok := strings.CutPrefix(name, "f:")
		object, _ := value.(map[string]any)
		if !ok {
			continue
		}
		switch sub := object[text].(type) {
		case map[string]any:
			if RemoveUnkept(sub, below, keptBelow); !isKept && len(sub) == 0 {
				delete(object, text)
			}
		case []any:
			if isKept || len(below) > 0 {
				object[text] = withoutUnkept(sub, below, keptBelow)
			} else {
				delete(object, text)
			}
		default:
			if !isKept {
				delete(object, text)
			}
		}
	}
}

// withoutUnkept is RemoveUnkept for a list.
func withoutUnkept(list []any, fields, kept map[string]any) []any {
	for name, node := range fields {
		below, _ := node.(map[string]any)
		keptBelow, isKept := kept[name].(map[string]any)
		if keys, ok := keysOf(name); ok {
			list = slices.DeleteFunc(list, func(item any) bool {
				object, ok := item.(map[string]any)
				if !ok || !hasKeys(object, keys) {
					return false
				}
				RemoveUnkept(object, below, keptBelow)
				return !isKept
			})
		}
		if text, ok := strings.CutPrefix(name, "v:"); ok && !isKept {
			var v any
			if json.Unmarshal([]byte(text), &v) == nil {
				list = slices.DeleteFunc(list, func(item any) bool { return fmt.Sprint(item) == fmt.Sprint(v) })
			}
		}
	}
	return list
}
