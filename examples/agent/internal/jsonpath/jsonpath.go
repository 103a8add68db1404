// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsonpath follows JSON paths of Kubernetes. Package jsonpath of client-go returns values;
// this package returns their positions too, and limits the cost, because paths are untrusted. The
// parser is from client-go.
package jsonpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/spokewire/sdk-go/internal/bound"
)

const (
	// Most is the maximum number of matches of a path, also of its parts.
	Most = 10_000
	// longest is the maximum length of a path, in bytes.
	longest = 4 << 10
)

// ErrMisfit is returned when a path has no match because it selects items of a value that is not a
// list.
var ErrMisfit = errors.New("index into a value that is not a list")

// Match is a value and its path: strings are fields of objects, ints are items of lists.
type Match struct {
	Path  []any
	Value any
}

// at returns the match of a field or an item of m.
func (m Match) at(step, value any) Match {
	return Match{Path: append(m.Path[:len(m.Path):len(m.Path)], step), Value: value}
}

// Find returns the matches of a path, which may be in braces. A missing field is no match. The
// error is [ErrMisfit] or describes the problem of the path; when ctx has ended, it is the error of
// ctx. Find takes steps for the values that it visits.
func Find(ctx context.Context, steps *bound.Steps, text string, object map[string]any) ([]Match, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("%d bytes are more than the limit of %d", len(text), longest)
	}
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	parser, err := jsonpath.Parse("path", text)
	if err != nil {
		return nil, err
	}
	if len(parser.Root.Nodes) != 1 {
		return nil, errors.New("not a single path")
	}
	w := walker{ctx: ctx, steps: steps}
	found, err := w.walk(parser.Root.Nodes, []Match{{Value: object}})
	if err == nil && len(found) == 0 && w.misfit {
		err = ErrMisfit
	}
	return found, err
}

// walker follows one path and counts the steps.
type walker struct {
	ctx    context.Context
	steps  *bound.Steps
	misfit bool
}

// count counts the steps for n matches at a depth, which is the length of their paths.
func (w *walker) count(n, depth int) error {
	if err := w.steps.Take("following the path", n*(2+2*depth)); err != nil {
		return err
	}
	return w.ctx.Err()
}

// walk follows the nodes of a path from each of the matches.
func (w *walker) walk(nodes []jsonpath.Node, from []Match) ([]Match, error) {
	for _, node := range nodes {
		var next []Match
		for _, m := range from {
			err := w.count(1, 0)
			if err != nil {
				return nil, err
			}
			found, err := w.step(node, m)
			if err != nil {
				return nil, err
			}
			if next = append(next, found...); len(next) > Most {
				return nil, fmt.Errorf("matches more than %d fields", Most)
			}
		}
		from = next
	}
	return from, nil
}

func (w *walker) step(node jsonpath.Node, m Match) ([]Match, error) {
	switch node := node.(type) {
	case *jsonpath.ListNode:
		return w.walk(node.Nodes, []Match{m})
	case *jsonpath.FieldNode:
		object, _ := m.Value.(map[string]any)
		if node.Value == "" {
			return []Match{m}, nil // "$" and "@"
		}
		value, ok := object[node.Value]
		if !ok {
			return nil, nil
		}
		return []Match{m.at(node.Value, value)}, w.count(1, len(m.Path))
	case *jsonpath.ArrayNode:
		return w.slice(node, m)
	case *jsonpath.WildcardNode:
		return w.children(m)
	case *jsonpath.RecursiveNode:
		return w.descendants(m, nil)
	case *jsonpath.UnionNode:
		var all []Match
		for _, list := range node.Nodes {
			found, err := w.walk(list.Nodes, []Match{m})
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	case *jsonpath.FilterNode:
		return w.filter(node, m)
	}
	return nil, fmt.Errorf("%s is not supported in a path", node)
}

// slice returns items by index, for example [2], [-1], [1:3] and [0:4:2].
func (w *walker) slice(node *jsonpath.ArrayNode, m Match) (found []Match, err error) {
	list, ok := m.Value.([]any)
	if !ok {
		w.misfit = w.misfit || m.Value != nil
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
		return nil, errors.New("the step of a slice must be more than 0")
	}
	if err := w.count(max(bound(end, len(list))-bound(start, 0), 0)/by, len(m.Path)); err != nil {
		return nil, err
	}
	for i := bound(start, 0); i < bound(end, len(list)); i += by {
		found = append(found, m.at(i, list[i]))
	}
	return found, nil
}

func (w *walker) children(m Match) (all []Match, err error) {
	switch value := m.Value.(type) {
	case map[string]any:
		if err := w.count(len(value), len(m.Path)); err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			all = append(all, m.at(name, value[name]))
		}
	case []any:
		if err := w.count(len(value), len(m.Path)); err != nil {
			return nil, err
		}
		for i := range value {
			all = append(all, m.at(i, value[i]))
		}
	}
	return all, nil
}

// descendants adds a match and all values in it, up to about Most.
func (w *walker) descendants(m Match, all []Match) ([]Match, error) {
	all = append(all, m)
	below, err := w.children(m)
	for _, c := range below {
		if err != nil || len(all) > Most {
			break
		}
		all, err = w.descendants(c, all)
	}
	return all, err
}

// filter returns the items of a list for which an expression such as [?(@.name=="web")] is true.
func (w *walker) filter(node *jsonpath.FilterNode, m Match) (found []Match, err error) {
	list, _ := m.Value.([]any)
	for i := range list {
		left, err := w.operand(node.Left, list[i])
		if err != nil {
			return nil, err
		}
		is := left != nil
		if node.Operator != "exists" {
			right, err := w.operand(node.Right, list[i])
			if err != nil {
				return nil, err
			}
			if is, err = compares(left, node.Operator, right); err != nil {
				return nil, err
			}
		}
		if is {
			found = append(found, m.at(i, list[i]))
		}
	}
	return found, nil
}

// operand returns a literal, or the first value that a path selects; nil without a match.
func (w *walker) operand(list *jsonpath.ListNode, item any) (any, error) {
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
	found, err := w.walk(list.Nodes, []Match{{Value: item}})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if i, ok := found[0].Value.(int64); ok {
		return float64(i), nil
	}
	return found[0].Value, nil
}

// compares compares two values. Values of different types are not equal, and have no order.
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
