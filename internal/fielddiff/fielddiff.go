// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package fielddiff compares Kubernetes objects field by field.
package fielddiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Redacted replaces values of Secrets.
const Redacted = "(redacted)"

// Change is a field in which two objects differ.
type Change struct {
	// Path has the form of the API server's conflicts:
	// .spec.template.spec.containers[name="web"].image. List items without names have their index.
	Path string
	// Before and After are the values. Nil means that the field does not exist.
	Before, After any
}

// Between returns the fields in which two objects differ, ordered by their paths. The objects must
// have the types of encoding/json.
func Between(before, after map[string]any) []Change { return between(nil, "", before, after) }

func between(out []Change, path string, before, after any) []Change {
	if reflect.DeepEqual(before, after) {
		return out
	}
	if before == nil || after == nil {
		return append(out, Change{path, before, after})
	}
	old, oldOK := fieldsByName(before)
	now, nowOK := fieldsByName(after)
	_, wasObject := before.(map[string]any)
	_, isObject := after.(map[string]any)
	if !oldOK || !nowOK || wasObject != isObject {
		return append(out, Change{path, before, after})
	}
	both := maps.Clone(old)
	maps.Copy(both, now)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		out = between(out, path+name, old[name], now[name])
	}
	return out
}

// fieldsByName returns the fields of an object or the items of a list, by their part of a path. It
// returns false for other values.
func fieldsByName(value any) (fields map[string]any, ok bool) {
	fields = map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			path := "." + name
			if strings.ContainsAny(name, "./[") {
				path = fmt.Sprintf("[%q]", name)
			}
			fields[path] = field
		}
		return fields, true
	case []any:
		for i, item := range value {
			path := fmt.Sprintf("[%d]", i)
			if name, ok := nameOf(item); ok {
				path = KeyPath(map[string]any{"name": name})
			}
			fields[path] = item
		}
		return fields, len(fields) == len(value) // otherwise a name is repeated
	}
	return nil, false
}

func nameOf(item any) (string, bool) {
	object, _ := item.(map[string]any)
	name, ok := object["name"].(string)
	return name, ok
}

// KeyPath returns the keys of a list item in the form of the API server.
func KeyPath(keys map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		text, err := json.Marshal(keys[name])
		if err != nil {
			return ""
		}
		parts = append(parts, name+"="+string(text))
	}
	return fmt.Sprintf("[%s]", strings.Join(parts, ","))
}

// Redact hides the values of a Secret. Its annotations may contain the whole Secret, as written by
// kubectl.
func Redact(changes []Change) {
	secret := []string{".data", ".stringData", ".metadata.annotations"}
	for i := range changes {
		c := &changes[i]
		if !slices.ContainsFunc(secret, func(p string) bool { return strings.HasPrefix(c.Path, p) }) {
			continue
		}
		for _, value := range []*any{&c.Before, &c.After} {
			if *value != nil {
				*value = Redacted
			}
		}
	}
}

// Overlay returns a live object with the fields of a manifest in place of its own. List items with
// names are matched by name. Other lists are replaced.
func Overlay(live, manifest map[string]any) map[string]any {
	out := maps.Clone(live)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range manifest {
		out[name] = overlay(out[name], value)
	}
	return out
}

func overlay(live, manifest any) any {
	switch manifest := manifest.(type) {
	case map[string]any:
		if object, ok := live.(map[string]any); ok {
			return Overlay(object, manifest)
		}
	case []any:
		items, _ := live.([]any)
		out := make([]any, len(manifest))
		for i, item := range manifest {
			out[i] = item
			name, ok := nameOf(item)
			if !ok {
				continue
			}
			at := slices.IndexFunc(items, func(other any) bool { n, ok := nameOf(other); return ok && n == name })
			if at >= 0 {
				out[i] = overlay(items[at], item)
			}
		}
		return out
	}
	return manifest
}
