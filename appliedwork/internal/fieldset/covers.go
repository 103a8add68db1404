// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Covers reports whether each field of value is in a set of fields. A node without children is
// either a value that is managed as a whole, or a map in which we manage no field any more. So
// Covers also compares value with live.
func Covers(fields map[string]any, value, live any) bool {
	switch value := value.(type) {
	case map[string]any:
		object, _ := live.(map[string]any)
		for name, sub := range value {
			if sub == nil {
				continue // a null is not a field
			}
			if node, ok := fields["f:"+name].(map[string]any); ok {
				if !coversNode(node, sub, object[name]) {
					return false
				}
			} else if !isEmpty(sub) {
				return false
			}
		}
	case []any:
		return coversList(fields, value, live)
	}
	return true
}

func coversNode(node map[string]any, value, live any) bool {
	switch value.(type) {
	case map[string]any, []any:
		if len(node) == 0 {
			return contains(live, value)
		}
		return Covers(node, value, live)
	}
	return true // another writer of it would own it
}

// contains reports whether live has all fields of value; defaults of the server do not matter. A
// value that the server formats differently, such as a quantity, counts as different.
func contains(live, value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		object, _ := live.(map[string]any)
		for name, sub := range value {
			if !isEmpty(sub) && !contains(object[name], sub) {
				return false
			}
		}
		return true
	case []any:
		list, _ := live.([]any)
		return slices.EqualFunc(list, value, contains)
	}
	return fmt.Sprint(live) == fmt.Sprint(value)
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, sub := range value {
			if !isEmpty(sub) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	}
	return value == nil
}

// coversList reports whether each item of a list is in a set of fields, by its keys (k:) or its
// value (v:).
func coversList(fields map[string]any, list []any, live any) bool {
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			text, err := json.Marshal(item)
			if err != nil || fields["v:"+string(text)] == nil {
				return false
			}
			continue
		}
		if !coversItem(fields, object, live) {
			return false
		}
	}
	return true
}

func coversItem(fields map[string]any, item map[string]any, live any) bool {
	for name, node := range fields {
		keys, ok := keysOf(name)
		if !ok || !hasKeys(item, keys) {
			continue
		}
		sub, _ := node.(map[string]any)
		for _, candidate := range itemsWith(live, keys) {
			if coversNode(sub, item, candidate) {
				return true
			}
		}
	}
	return false
}

// itemsWith returns the items of a list with the values of a key: several if a create sent the key
// twice.
func itemsWith(live any, keys map[string]any) (items []any) {
	list, _ := live.([]any)
	for _, item := range list {
		if object, ok := item.(map[string]any); ok && hasKeys(object, keys) {
			items = append(items, object)
		}
	}
	return items
}

// hasKeys reports whether an item has the values of a key. It may lack fields with defaults.
func hasKeys(item, keys map[string]any) bool {
	any := false
	for name, want := range keys {
		got, ok := item[name]
		if !ok {
			continue
		}
		any = true
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return false
		}
	}
	return any
}
