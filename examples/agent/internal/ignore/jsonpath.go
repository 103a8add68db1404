// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// byJSONPath follows a JSON path of Kubernetes. Package jsonpath returns values; here it only parses, as what is wanted is
// where they are.
func byJSONPath(text string, manifest map[string]any) ([]path, error) {
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	parser, err := jsonpath.Parse("ignoreFields", text)
	if err != nil {
		return nil, err
	}
	if len(parser.Root.Nodes) != 1 {
		return nil, errors.New("it is no single path")
	}
	found, err := walk(parser.Root.Nodes, []match{{value: manifest}})
	if err != nil {
		return nil, err
	}
	paths := make([]path, len(found))
	for i, m := range found {
		paths[i] = m.path
	}
	return paths, nil
}

// match is a value and where it is.
type match struct {
	path  path
	value any
}

// walk follows the nodes of a path from each of the matches.
func walk(nodes []jsonpath.Node, from []match) ([]match, error) {
	for _, node := range nodes {
		var next []match
		for _, m := range from {
			found, err := step(node, m)
			if err != nil {
				return nil, err
			}
			if next = append(next, found...); len(next) > mostPaths {
				return nil, fmt.Errorf("it finds more than %d fields", mostPaths)
			}
		}
		from = next
	}
	return from, nil
}

func step(node jsonpath.Node, m match) ([]match, error) {
	switch node := node.(type) {
	case *jsonpath.ListNode:
		return walk(node.Nodes, []match{m})
	case *jsonpath.FieldNode:
		object, _ := m.value.(map[string]any)
		if node.Value == "" {
			return []match{m}, nil // "$" and "@"
		}
		if !has(object, node.Value) {
			return nil, nil
		}
		return []match{{m.path.with(node.Value), object[node.Value]}}, nil
	case *jsonpath.ArrayNode:
		return slice(node, m)
	case *jsonpath.WildcardNode:
		return children(m), nil
	case *jsonpath.RecursiveNode:
		return descendants(m), nil
	case *jsonpath.UnionNode:
		var all []match
		for _, list := range node.Nodes {
			found, err := walk(list.Nodes, []match{m})
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	case *jsonpath.FilterNode:
		return filter(node, m)
	}
	return nil, fmt.Errorf("%s is no part of a path", node)
}

// slice returns items by index, as [2], [-1], [1:3] and [0:4:2].
func slice(node *jsonpath.ArrayNode, m match) (found []match, err error) {
	list, ok := m.value.([]any)
	if !ok {
		return nil, nil
	}
	start, end, stride := node.Params[0], node.Params[1], node.Params[2]
	bound := func(p jsonpath.ParamsEntry, otherwise int) int {
		switch {
		case !p.Known:
			return otherwise
		case p.Value < 0 || p.Value == 0 && p.Derived:
			return min(max(p.Value+len(list), 0), len(list))
		}
		return min(p.Value, len(list))
	}
	by := 1
	if stride.Known {
		by = stride.Value
	}
	if by <= 0 {
		return nil, errors.New("the step of a slice is more than 0")
	}
	for i := bound(start, 0); i < bound(end, len(list)); i += by {
		found = append(found, match{m.path.with(i), list[i]})
	}
	return found, nil
}

func children(m match) (all []match) {
	switch value := m.value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			all = append(all, match{m.path.with(name), value[name]})
		}
	case []any:
		for i := range value {
			all = append(all, match{m.path.with(i), value[i]})
		}
	}
	return all
}

func descendants(m match) []match {
	all := []match{m}
	for _, c := range children(m) {
		all = append(all, descendants(c)...)
	}
	return all
}

// filter returns the items of a list for which an expression as [?(@.name=="web")] is true.
func filter(node *jsonpath.FilterNode, m match) (found []match, err error) {
	list, _ := m.value.([]any)
	for i := range list {
		left, err := operand(node.Left, list[i])
		if err != nil {
			return nil, err
		}
		is := left != nil
		if node.Operator != "exists" {
			right, err := operand(node.Right, list[i])
			if err != nil {
				return nil, err
			}
			if is, err = compares(left, node.Operator, right); err != nil {
				return nil, err
			}
		}
		if is {
			found = append(found, match{m.path.with(i), list[i]})
		}
	}
	return found, nil
}

// operand returns a literal, or the first value that a path leads to; nil for none.
func operand(list *jsonpath.ListNode, item any) (any, error) {
	if len(list.Nodes) == 1 {
		switch node := list.Nodes[0].(type) {
		case *jsonpath.TextNode:
			return node.Text, nil
		case *jsonpath.IntNode:
			return float64(node.Value), nil
		case *jsonpath.FloatNode:
			return node.Value, nil
		case *jsonpath.BoolNode:
			return node.Value, nil
		}
	}
	found, err := walk(list.Nodes, []match{{value: item}})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if i, ok := found[0].value.(int64); ok {
		return float64(i), nil
	}
	return found[0].value, nil
}

// compares: values of different types are not equal, and have no order.
func compares(left any, operator string, right any) (bool, error) {
	switch operator {
	case "==":
		return reflect.DeepEqual(left, right), nil
	case "!=":
		return !reflect.DeepEqual(left, right), nil
	}
	var order int
	switch l := left.(type) {
	case float64:
		r, ok := right.(float64)
		if !ok {
			return false, nil
		}
		order = cmp.Compare(l, r)
	case string:
		r, ok := right.(string)
		if !ok {
			return false, nil
		}
		order = cmp.Compare(l, r)
	default:
		return false, nil
	}
	switch operator {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	}
	return false, fmt.Errorf("the operator %q is unknown", operator)
}
