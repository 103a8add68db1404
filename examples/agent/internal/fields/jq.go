// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/spokewire/sdk-go/internal/bound"
)

// byJQ evaluates a path expression of jq.
func byJQ(ctx context.Context, steps *bound.Steps, text string, obj *unstructured.Unstructured) ([]field, error) {
	if len(text) > longestPath {
		return nil, fmt.Errorf("%d bytes are more than the limit of %d", len(text), longestPath)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := allowed(query); err != nil {
		return nil, err
	}
	query = &gojq.Query{Term: &gojq.Term{
		Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: "path", Args: []*gojq.Query{query}},
	}}
	// Without an environment, modules and input.
	code, err := gojq.Compile(query, gojq.WithFunction(boundedTest, 1, 1,
		func(text any, args []any) any { return test(steps, text, args[0]) }))
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, err
	}
	var input any // with the number types that gojq reads
	if err := json.Unmarshal(content, &input); err != nil {
		return nil, err
	}
	var fields []field
	for results := code.RunWithContext(ctx, input); ; {
		result, ok := results.Next()
		if !ok {
			return fields, steps.Err() // "?" and "//" drop the error of a function
		}
		if err, failed := result.(error); failed {
			return nil, err
		}
		found, _ := result.([]any)
		// Each element is copied several times, in 16 bytes, on its way here and below.
		const perElement = 8
		if err := steps.Take("finding fields", 2+perElement*len(found)); err != nil {
			return nil, err
		}
		p, exists, err := jqPath(found, input)
		if err != nil {
			return nil, err
		}
		if exists {
			at, err := fieldAt(steps, p)
			if err != nil {
				return nil, err
			}
			fields = append(fields, at)
		}
		if len(fields) > mostFields {
			return nil, fmt.Errorf("matches more than %d fields", mostFields)
		}
	}
}

// boundedTest is the function that replaces test in expressions.
const boundedTest = "_spokewire_test"

// test is the function test of jq with a limit on its cost.
func test(steps *bound.Steps, text, pattern any) any {
	s, ok := text.(string)
	re, isText := pattern.(string)
	if !ok || !isText {
		return errors.New("test needs a string")
	}
	matched, err := steps.Match(re, s)
	if err != nil {
		return err
	}
	return matched
}

// jqPath returns a path of jq without negative indexes, and whether it exists: jq also returns
// paths to missing fields.
func jqPath(found []any, at any) (p []any, exists bool, err error) {
	p = make([]any, 0, len(found))
	for _, step := range found {
		switch step := step.(type) {
		case string:
			object, _ := at.(map[string]any)
			value, ok := object[step]
			if !ok {
				return nil, false, nil
			}
			p, at = append(p, step), value
		case int:
			list, _ := at.([]any)
			if step < 0 {
				step += len(list)
			}
			if step < 0 || step >= len(list) {
				return nil, false, nil
			}
			p, at = append(p, step), list[step]
		default:
			return nil, false, errors.New("slices of lists are not supported: name the items, as .[2]")
		}
	}
	return p, true, nil
}

// An expression of jq can create a text of 2 GiB in one step, which no time limit stops. Selecting
// fields creates no values, so only the operations for that are allowed. The only allowed function
// that can take long, test, is replaced by one with a limit.

// functions are the functions that an expression may call. Their results are not larger than their
// input.
var functions = sets.New(
	"all/1", "all/2", "any/1", "any/2", "arrays/0", "ascii_downcase/0", "ascii_upcase/0", "booleans/0",
	"contains/1", "empty/0", "endswith/1", "first/1", "has/1", "isempty/1", "iterables/0", "last/1", "length/0",
	"limit/2", "ltrimstr/1", "not/0", "nulls/0", "numbers/0", "objects/0", "recurse/0", "rtrimstr/1", "scalars/0",
	"select/1", "startswith/1", "strings/0", "test/1", "type/0", "values/0",
)

// literal are the functions that need a literal text as argument. For two lists, the cost of
// contains is the product of their lengths.
var literal = sets.New("contains/1", "test/1")

var operators = sets.New(
	gojq.OpPipe, gojq.OpComma, gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe,
	gojq.OpAnd, gojq.OpOr, gojq.OpAlt,
)

// allowed returns an error if an expression does more than select fields.
func allowed(q *gojq.Query) error {
	switch {
	case q == nil:
		return nil
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return errors.New("modules, definitions and variables are not allowed: name fields, and select items by " +
			"comparing them")
	case q.Term != nil:
		return allowedTerm(q.Term)
	case q.Left == nil || q.Right == nil: // gojq would panic when it formats the query
		return errors.New("empty expression: name a field")
	case !operators.Has(q.Op):
		return fmt.Errorf("the operator %s is not allowed: name fields, and select items by comparing them", q.Op)
	}
	return errors.Join(allowed(q.Left), allowed(q.Right))
}

func allowedTerm(t *gojq.Term) error {
	var err error
	switch t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeRecurse, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse,
		gojq.TermTypeNumber:
	case gojq.TermTypeUnary:
		err = allowedTerm(t.Unary.Term)
	case gojq.TermTypeIndex:
		err = allowedIndex(t.Index)
	case gojq.TermTypeString:
		err = allowedText(t.Str)
	case gojq.TermTypeQuery:
		err = allowed(t.Query)
	case gojq.TermTypeFunc:
		err = allowedFunction(t.Func)
	case gojq.TermTypeIf:
		err = errors.Join(allowed(t.If.Cond), allowed(t.If.Then), allowed(t.If.Else))
		for _, e := range t.If.Elif {
			err = errors.Join(err, allowed(e.Cond), allowed(e.Then))
		}
	default:
		err = fmt.Errorf("%s is not allowed: name fields, and select items by comparing them", t)
	}
	for _, s := range t.SuffixList {
		if s.Index != nil {
			err = errors.Join(err, allowedIndex(s.Index))
		}
	}
	return err
}

func allowedFunction(f *gojq.Func) error {
	name := fmt.Sprintf("%s/%d", f.Name, len(f.Args))
	if !functions.Has(name) {
		return fmt.Errorf("the function %s is not allowed: name fields, and select items by comparing them", name)
	}
	if literal.Has(name) {
		if t := f.Args[0].Term; t == nil || t.Type != gojq.TermTypeString || len(t.SuffixList) > 0 {
			return fmt.Errorf("the argument of %s is not allowed: write a string", name)
		}
	}
	var err error
	for _, arg := range f.Args {
		err = errors.Join(err, allowed(arg))
	}
	if name == "test/1" {
		f.Name = boundedTest
	}
	return err
}

func allowedIndex(i *gojq.Index) error {
	return errors.Join(allowedText(i.Str), allowed(i.Start), allowed(i.End))
}

func allowedText(s *gojq.String) error {
	if s != nil && len(s.Queries) > 0 {
		return errors.New("texts with \\( in them are not allowed: name fields, and select items by comparing them")
	}
	return nil
}
