// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset

import "fmt"

// mergeKeys are the merge keys of lists in the built-in kinds of Kubernetes.
var mergeKeys = []string{
	"name", "key", "type", "ip", "uid", "port", "containerPort", "mountPath", "devicePath", "topologyKey",
	"resourceName", "request",
}

// MayRepeatKeys reports whether a list may have two items with the same key, or a set the same item
// twice. A create accepts that for some kinds, and an apply does not. The keys of a list are not
// known here, so the result may be true without need.
func MayRepeatKeys(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, sub := range value {
			if MayRepeatKeys(sub) {
				return true
			}
		}
	case []any:
		type field struct{ name, value string }
		seen := map[field]bool{}
		repeats := func(name string, v any) bool {
			f := field{name, fmt.Sprint(v)}
			again := seen[f]
			seen[f] = true
			return again
		}
		for _, item := range value {
			object, ok := item.(map[string]any)
			if !ok {
				if repeats("", item) {
					return true
				}
				continue
			}
			for _, name := range mergeKeys {
				if v, has := object[name]; has && repeats(name, v) {
					return true
				}
			}
			if MayRepeatKeys(object) {
				return true
			}
		}
	}
	return false
}
