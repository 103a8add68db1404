// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fields

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

// errMisfit is returned when a path has no match because it selects items of a value that is not a
// list.
var errMisfit = errors.New("index into a value that is not a list")

// Match is a value and its path: strings are fields of objects, ints are items of lists.
type Match struct {
	Path  []any
	Value any
}

// Find returns the matches of a JSON path of Kubernetes, which may be in braces. A missing field is no match. The
// error is [errMisfit] or describes the problem of the path; when ctx has ended, it is the error of
// ctx. The path takes steps for the values that it visits. Package jsonpath of client-go, which has the
// parser, returns values without positions, and at any cost.
func Find(ctx context.Context, steps *bound.Steps, text string, object map[string]any) ([]Match, error) {
	if len(text) > longestPath {
		return nil, fmt.Errorf("%d bytes are more than the limit of %d", len(text), longestPath)
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
	var found []Match
	w := walker{ctx: ctx, steps: steps}
	w.walk(parser.Root.Nodes, Match{Value: object}, func(m Match) {
		if found = append(found, m); len(found) > mostFields {
			w.err = fmt.Errorf("matches more than %d fields", mostFields)
		}
	})
	switch {
	case w.err != nil:
		return nil, w.err
	case len(found) == 0 && w.misfit:
		return nil, errMisfit
	}
	return found, nil
}

// walker follows one path. It ends at the first error.
type walker struct {
	ctx    context.Context
	steps  *bound.Steps
	err    error
	misfit bool
}

// walk follows the nodes of a path from a match, and calls found for the matches, in order.
func (w *walker) walk(nodes []jsonpath.Node, m Match, found func(Match)) {
	w.err = cmp.Or(w.err, w.ctx.Err(), w.steps.Take("following the path", 2+2*len(m.Path)))
	switch {
	case w.err != nil:
		return
	case len(nodes) == 0:
		found(m)
		return
	}
	next := func(m Match) { w.walk(nodes[1:], m, found) }
	switch node := nodes[0].(type) {
	case *jsonpath.ListNode:
		w.walk(node.Nodes, m, next)
	case *jsonpath.FieldNode:
		object, _ := m.Value.(map[string]any)
		if node.Value == "" { // "$" and "@"
			next(m)
		} else if value, ok := object[node.Value]; ok {
			w.child(m, node.Value, value, next)
		}
	case *jsonpath.ArrayNode:
		w.slice(node, m, next)
	case *jsonpath.WildcardNode:
		w.children(m, next)
	case *jsonpath.RecursiveNode:
		w.descendants(m, next)
	case *jsonpath.UnionNode:
		for _, list := range node.Nodes {
			w.walk(list.Nodes, m, next)
		}
	case *jsonpath.FilterNode:
		list, _ := m.Value.([]any)
		for i, item := range list {
			if w.selects(node, item) {
				w.child(m, i, item, next)
			}
		}
	default:
		w.err = fmt.Errorf("%s is not supported in a path", node)
	}
}

// child calls next with a field or an item of a match, unless the walk has ended.
func (w *walker) child(m Match, step, value any, next func(Match)) {
	if w.err == nil {
		next(Match{Path: append(slices.Clip(m.Path), step), Value: value})
	}
}

// slice selects items by index, for example [2], [-1], [1:3] and [0:4:2].
func (w *walker) slice(node *jsonpath.ArrayNode, m Match, next func(Match)) {
	list, ok := m.Value.([]any)
	if !ok {
		w.misfit = w.misfit || m.Value != nil
		return
	}
	limits := [...]int{0, len(list), 1} // start, end and step
	for i, p := range node.Params {
		if p.Known {
			limits[i] = p.Value
		}
		if fromEnd := p.Value < 0 || p.Value == 0 && p.Derived; p.Known && fromEnd && i < 2 {
			limits[i] += len(list)
		}
	}
	if limits[2] <= 0 {
		w.err = errors.New("the step of a slice must be more than 0")
		return
	}
	for i := max(limits[0], 0); i < min(limits[1], len(list)); i += min(limits[2], len(list)) {
		w.child(m, i, list[i], next)
	}
}

func (w *walker) children(m Match, next func(Match)) {
	switch value := m.Value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			w.child(m, name, value[name], next)
		}
	case []any:
		for i, item := range value {
			w.child(m, i, item, next)
		}
	}
}

// descendants selects a match and all values in it.
func (w *walker) descendants(m Match, next func(Match)) {
	next(m)
	w.children(m, func(child Match) { w.descendants(child, next) })
}

// selects reports whether a filter such as [?(@.name=="web")] selects an item of a list.
func (w *walker) selects(node *jsonpath.FilterNode, item any) bool {
	left := w.operand(node.Left, item)
	if node.Operator == "exists" {
		return left != nil
	}
	is, err := compares(left, node.Operator, w.operand(node.Right, item))
	w.err = cmp.Or(w.err, err)
	return is
}

// operand returns a literal, or the first value that a path selects; nil without a match.
func (w *walker) operand(list *jsonpath.ListNode, item any) (value any) {
	if len(list.Nodes) == 1 {
		switch node := list.Nodes[0].(type) {
		case *jsonpath.TextNode:
			return node.Text
		case *jsonpath.IntNode:
			return float64(node.Value)
		case *jsonpath.FloatNode:
			return node.Value
		case *jsonpath.BoolNode:
			return node.Value
		}
	}
	first := walker{ctx: w.ctx, steps: w.steps}
	first.walk(list.Nodes, Match{Value: item}, func(m Match) { value, first.err = m.Value, errFound })
	if !errors.Is(first.err, errFound) {
		w.err = cmp.Or(w.err, first.err)
	}
	w.misfit = w.misfit || first.misfit
	if i, ok := value.(int64); ok {
		return float64(i)
	}
	return value
}

// errFound ends a search at the first match.
var errFound = errors.New("found")

// compares compares two values. Values of different types are not equal, and have no order.
func compares(left any, operator string, right any) (bool, error) {
	n, ordered := order(left, right)
	switch operator {
	case "==":
		return reflect.DeepEqual(left, right), nil
	case "!=":
		return !reflect.DeepEqual(left, right), nil
	case "<":
		return ordered && n < 0, nil
	case "<=":
		return ordered && n <= 0, nil
	case ">":
		return ordered && n > 0, nil
	case ">=":
		return ordered && n >= 0, nil
	}
	return false, fmt.Errorf("the operator %q is unknown", operator)
}

func order(left, right any) (n int, ordered bool) {
	switch l := left.(type) {
	case float64:
		r, ok := right.(float64)
		return cmp.Compare(l, r), ok
	case string:
		r, ok := right.(string)
		return cmp.Compare(l, r), ok
	}
	return 0, false
}
