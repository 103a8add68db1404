// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/examples/agent/internal/budget"
)

// path is where a value is in an object: strings for the fields of objects, ints for the items of lists.
type path []any

// compare orders paths: those of one list by index.
func compare(a, b path) int {
	return slices.CompareFunc(a, b, func(x, y any) int {
		i, isIndex := x.(int)
		j, both := y.(int)
		switch {
		case isIndex && both:
			return cmp.Compare(i, j)
		case isIndex:
			return -1
		case both:
			return 1
		}
		return cmp.Compare(x.(string), y.(string))
	})
}

// place is what is on the cluster where a path of the manifest leads.
type place struct {
	live  any
	found bool
	// fields is the agent's part of it, in the form of FieldsV1; nil where the agent has none.
	fields map[string]any
}

// on follows a path of the manifest on the cluster. Items of lists are found by their keys, which the record of managed
// fields has, as there may be more of them there.
func (p path) on(r *resolver, manifest, live any, fields map[string]any) place {
	at := place{live: live, found: true, fields: fields}
	for _, step := range p {
		atomic := len(at.fields) == 0 && at.fields != nil
		switch step := step.(type) {
		case string:
			object, _ := manifest.(map[string]any)
			manifest = object[step]
			object, _ = at.live.(map[string]any)
			at.live, at.found = object[step], at.found && has(object, step)
			if !atomic {
				at.fields = child(at.fields, "f:"+step)
			}
		case int:
			list, _ := manifest.([]any)
			manifest = item(list, step)
			list, _ = at.live.([]any)
			at.item(r, manifest, list, step, atomic)
		}
	}
	return at
}

// item moves to an item of a list.
func (at *place) item(r *resolver, manifest any, list []any, index int, atomic bool) {
	if r.steps.Take("finding an item", 10*len(at.fields)+len(list)) != nil {
		return
	}
	if !atomic {
		for name, node := range at.fields {
			if keys := r.keysOf(name); keys != nil && contains(manifest, keys) {
				at.fields, _ = node.(map[string]any)
				at.live, at.found = nil, false
				for _, i := range list {
					if contains(i, keys) {
						at.live, at.found = i, true
					}
				}
				return
			}
		}
		text, _ := json.Marshal(manifest)
		at.fields = child(at.fields, "v:"+string(text))
	}
	// Others may have it at another place, which cannot be told without their keys: where it has a name, that is one.
	if object, ok := manifest.(map[string]any); ok && object["name"] != nil {
		at.live, at.found = nil, false
		for _, i := range list {
			if contains(i, map[string]any{"name": object["name"]}) {
				at.live, at.found = i, true
			}
		}
		return
	}
	at.live, at.found = item(list, index), at.found && index < len(list)
}

// set replaces the value at a path that the object has.
func (p path) set(object any, value any) {
	parent, last := p.parent(object)
	switch parent := parent.(type) {
	case map[string]any:
		parent[last.(string)] = value
	case []any:
		parent[last.(int)] = value
	}
}

// leads reports whether there is something at a path, or it goes through a list.
func (p path) leads(object any) bool {
	for _, step := range p {
		name, ok := step.(string)
		if !ok {
			return true
		}
		fields, _ := object.(map[string]any)
		if !has(fields, name) {
			return false
		}
		object = fields[name]
	}
	return true
}

// add sets the value at a path of fields that the object does not have, with what is above it.
func (p path) add(object map[string]any, value any) {
	for _, step := range p[:len(p)-1] {
		below, ok := object[step.(string)].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[step.(string)] = below
		}
		object = below
	}
	object[p[len(p)-1].(string)] = value
}

// remove takes the value out. What is left of a list is closed up.
func (p path) remove(object any) {
	parent, last := p.parent(object)
	switch parent := parent.(type) {
	case map[string]any:
		delete(parent, last.(string))
	case []any:
		index := last.(int)
		p[:len(p)-1].set(object, append(parent[:index:index], parent[index+1:]...))
	}
}

// parent returns what holds the last step of a path; nil where an earlier rule has taken it out.
func (p path) parent(object any) (parent, last any) {
	for _, step := range p[:len(p)-1] {
		switch at := object.(type) {
		case map[string]any:
			object = at[step.(string)]
		case []any:
			object = item(at, step.(int))
		default:
			return nil, nil
		}
	}
	last = p[len(p)-1]
	if list, ok := object.([]any); ok && last.(int) >= len(list) {
		return nil, nil
	}
	return object, last
}

// part returns what FieldsV1 names of a value: all of it where that goes no deeper.
func part(r *resolver, fields map[string]any, value any) any {
	deeper := false
	for name := range fields {
		deeper = deeper || name != "."
	}
	if !deeper {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		result := map[string]any{}
		for name, node := range fields {
			field, ok := strings.CutPrefix(name, "f:")
			if ok && has(value, field) {
				sub, _ := node.(map[string]any)
				result[field] = part(r, sub, value[field])
			}
		}
		return result
	case []any:
		if r.steps.Take("reading a list", 10*len(fields)*len(value)) != nil {
			return nil
		}
		var result []any
		for _, i := range value {
			text, _ := json.Marshal(i)
			if _, ok := fields["v:"+string(text)]; ok {
				result = append(result, i)
			}
			for name, node := range fields {
				if keys := r.keysOf(name); keys != nil && contains(i, keys) {
					sub, _ := node.(map[string]any)
					result = append(result, withKeys(part(r, sub, i), keys))
				}
			}
		}
		return result
	}
	return value
}

func withKeys(object any, keys map[string]any) any {
	if object, ok := object.(map[string]any); ok {
		for name, value := range keys {
			object[name] = value
		}
	}
	return object
}

// resolver finds paths of one manifest on the cluster.
type resolver struct {
	steps *budget.Steps
	keys  map[string]map[string]any // decoded, by name
}

// keysOf returns the keys of an item of a list, as FieldsV1 has them: k:{"name":"web"}. It returns nil for another name.
func (r *resolver) keysOf(name string) map[string]any {
	keys, known := r.keys[name]
	if known {
		return keys
	}
	if r.keys == nil {
		r.keys = map[string]map[string]any{}
	}
	text, ok := strings.CutPrefix(name, "k:")
	if !ok || r.steps.Take("decoding keys", 100) != nil || json.Unmarshal([]byte(text), &keys) != nil {
		keys = nil
	}
	for name, value := range keys {
		if f, ok := value.(float64); ok && f == float64(int64(f)) {
			keys[name] = int64(f) // as in objects
		}
	}
	r.keys[name] = keys
	return keys
}

// contains reports whether an object has the keys. One that has a default, as the protocol of a port, may lack it.
func contains(object any, keys map[string]any) bool {
	fields, ok := object.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range keys {
		if has(fields, name) && !reflect.DeepEqual(fields[name], value) || !has(fields, name) && name != "protocol" {
			return false
		}
	}
	return true
}

func child(fields map[string]any, name string) map[string]any {
	node, ok := fields[name]
	if !ok {
		return nil
	}
	sub, _ := node.(map[string]any)
	if sub == nil {
		sub = map[string]any{}
	}
	return sub
}

func has(object map[string]any, name string) bool { _, ok := object[name]; return ok }

func item(list []any, index int) any {
	if index < len(list) {
		return list[index]
	}
	return nil
}
