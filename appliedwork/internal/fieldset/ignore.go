// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Ignored is the set of fields of a manifest that an apply leaves to other field managers.
type Ignored struct {
	root ignoredField
	// Text identifies the set.
	Text []byte
}

// ignoredField is an ignored field, or a parent of ignored fields.
type ignoredField struct {
	always    bool // regardless of its manager
	ifChanged bool // if others manage it
	below     map[string]*ignoredField
}

// Ignore returns the set of the fields of a manifest with one of the JSON pointers. The fields of
// always are left to any manager, those of ifChanged only to others.
func Ignore(manifest *unstructured.Unstructured, always, ifChanged []string) (*Ignored, error) {
	all, result := [2][]string{}, &Ignored{}
	for i, pointers := range [][]string{always, ifChanged} {
		all[i] = slices.Compact(slices.Sorted(slices.Values(pointers)))
		for _, pointer := range all[i] {
			tokens, err := parsePointer(pointer)
			if err != nil {
				return nil, err
			}
			for _, tokens := range asStored(manifest, tokens) {
				f := result.root.at(tokens)
				f.always, f.ifChanged = f.always || i == 0, f.ifChanged || i == 1
			}
		}
	}
	var err error
	result.Text, err = json.Marshal(all)
	return result, err
}

// asStored replaces fields in stringData of a Secret with the fields in data that store them.
func asStored(manifest *unstructured.Unstructured, tokens []string) [][]string {
	if gvk := manifest.GroupVersionKind(); gvk.Group != "" || gvk.Kind != "Secret" || tokens[0] != "stringData" {
		return [][]string{tokens}
	}
	if len(tokens) > 1 {
		return [][]string{append([]string{"data"}, tokens[1:]...)}
	}
	var all [][]string
	texts, _ := manifest.Object["stringData"].(map[string]any)
	for name := range texts {
		all = append(all, []string{"data", name})
	}
	return all
}

func (f *ignoredField) at(tokens []string) *ignoredField {
	for _, token := range tokens {
		if f.below == nil {
			f.below = map[string]*ignoredField{}
		}
		if f.below[token] == nil {
			f.below[token] = &ignoredField{}
		}
		f = f.below[token]
	}
	return f
}

// RemoveFrom removes the fields that are always ignored from a manifest.
func (i *Ignored) RemoveFrom(manifest *unstructured.Unstructured) {
	i.root.leave(manifest.Object, livePart{})
}

// LeaveTo changes a manifest so that it can be applied to an existing object. Ignored fields of
// ours are sent with their live values: the API server removes a field that its manager does not
// send any more.
func (i *Ignored) LeaveTo(manifest, live *unstructured.Unstructured, ours func(manager string) bool) {
	fields := Of(live, ours)
	if len(fields) == 0 {
		fields = nil
	}
	i.root.leave(manifest.Object, livePart{value: live.Object, exists: true, fields: fields})
}

// leave changes a value to the part that is sent, and returns false if nothing is sent.
func (f *ignoredField) leave(value any, live livePart) (any, bool) {
	switch {
	case f.always && live.isOurs():
		return part(live.fields, live.value), true
	case f.always, f.ifChanged && live.exists && live.fields == nil:
		return nil, false
	case len(f.below) == 0:
		return value, true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, below := range f.below {
			sub, there := value[name]
			if there {
				sub, there = below.leave(sub, live.field(name))
			} else {
				sub, there = below.keep(live.field(name))
			}
			if there {
				value[name] = sub
			} else {
				delete(value, name)
			}
		}
	case []any:
		items, rest := live.items(), []any{}
		for i, item := range value {
			sent := true
			if below := f.below[strconv.Itoa(i)]; below != nil {
				item, sent = below.leave(item, items.find(i, item))
			}
			if sent {
				rest = append(rest, item)
			}
		}
		return rest, true
	}
	return value, true
}

// keep returns the value to send for an ignored field that was removed from the manifest. It does
// not look into lists, which may have other indices on the cluster.
func (f *ignoredField) keep(live livePart) (any, bool) {
	if !live.isOurs() {
		return nil, false
	}
	if f.always {
		return part(live.fields, live.value), true
	}
	kept := map[string]any{}
	for name, below := range f.below {
		if sub, ok := below.keep(live.field(name)); ok {
			kept[name] = sub
		}
	}
	return kept, len(kept) > 0
}

type livePart struct {
	value  any
	exists bool
	// fields are the fields of ours, in the form of FieldsV1. Nil means no field, an empty map all
	// fields.
	fields map[string]any
}

func (l livePart) isOurs() bool { return l.exists && l.fields != nil }

func (l livePart) field(name string) livePart {
	object, _ := l.value.(map[string]any)
	value, exists := object[name]
	return livePart{value, exists, l.below("f:" + name)}
}

func (l livePart) below(name string) map[string]any {
	if l.fields != nil && len(l.fields) == 0 {
		return l.fields
	}
	node, ok := l.fields[name]
	if !ok {
		return nil
	}
	if sub, _ := node.(map[string]any); sub != nil {
		return sub
	}
	return map[string]any{}
}

// liveItems are the items of a live list. They may have other indices than in the manifest.
type liveItems struct {
	of    livePart
	list  []any
	keys  [][]string                // key names of items of ours, from managed fields
	ours  map[string]map[string]any // managed fields of items of ours, by key values
	byKey map[string]map[string]any // items, by key values
}

func (l livePart) items() liveItems {
	list, _ := l.value.([]any)
	items := liveItems{of: l, list: list, ours: map[string]map[string]any{}, byKey: map[string]map[string]any{}}
	known := map[string]bool{}
	for name, node := range l.fields {
		var keys map[string]any
		text, ok := strings.CutPrefix(name, "k:")
		if !ok || utiljson.Unmarshal([]byte(text), &keys) != nil {
			continue
		}
		names := slices.Sorted(maps.Keys(keys))
		if joined := fmt.Sprintf("%q", names); !known[joined] {
			known[joined] = true
			items.keys = append(items.keys, names)
		}
		fields, _ := node.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		items.ours[keyOf(keys, names)] = fields
	}
	for _, names := range append([][]string{{"name"}}, items.keys...) {
		for _, item := range list {
			if object, _ := item.(map[string]any); object != nil {
				items.byKey[keyOf(object, names)] = object
			}
		}
	}
	return items
}

// keyOf returns the key values of an item as text, or an empty string if it lacks a key. The
// protocol defaults to TCP.
func keyOf(item map[string]any, names []string) string {
	values := make([]any, 0, 2*len(names))
	for _, name := range names {
		value, ok := item[name]
		if !ok && name != "protocol" {
			return ""
		}
		if !ok {
			value = "TCP"
		}
		values = append(values, name, value)
	}
	text, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(text)
}

// find returns the live item for an item of the manifest, by the keys and then the value in the
// managed fields, then by the name, and then by the index.
func (l liveItems) find(index int, item any) livePart {
	object, _ := item.(map[string]any)
	for _, names := range l.keys {
		key := keyOf(object, names)
		if fields := l.ours[key]; fields != nil {
			value, exists := l.byKey[key]
			return livePart{value, exists, fields}
		}
	}
	found := livePart{fields: l.of.fields}
	if len(found.fields) > 0 {
		if text, err := json.Marshal(item); err == nil {
			if fields := l.of.below("v:" + string(text)); fields != nil {
				return livePart{item, true, fields}
			}
		}
		found.fields = nil
	}
	if object["name"] != nil {
		found.value, found.exists = l.byKey[keyOf(object, []string{"name"})]
	} else if index < len(l.list) {
		found.value, found.exists = l.list[index], true
	}
	return found
}

func part(fields map[string]any, value any) any {
	_, itself := fields["."]
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	if len(fields) == 0 || itself && len(fields) == 1 || !isObject && !isList {
		return runtime.DeepCopyJSONValue(value)
	}
	if isObject {
		result := map[string]any{}
		for name := range fields {
			if name, ok := strings.CutPrefix(name, "f:"); ok {
				if field := (livePart{value, true, fields}).field(name); field.exists {
					result[name] = part(field.fields, object[name])
				}
			}
		}
		return result
	}
	result, items := []any{}, livePart{value, true, fields}.items()
	for _, item := range list {
		if found := items.find(0, item); found.fields != nil {
			result = append(result, items.part(item, found.fields))
		}
	}
	return result
}

// part returns the part of an item that is ours, with its keys.
func (l liveItems) part(item any, fields map[string]any) any {
	result := part(fields, item)
	object, _ := item.(map[string]any)
	kept, _ := result.(map[string]any)
	if kept == nil {
		return result
	}
	for _, names := range l.keys {
		for _, name := range names {
			if value, ok := object[name]; ok {
				kept[name] = value
			}
		}
	}
	return kept
}
