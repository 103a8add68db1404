// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/examples/agent/internal/jsonpath"
	"github.com/spokewire/sdk-go/internal/bound"
)

// byJQ evaluates a path expression of jq.
func byJQ(ctx context.Context, steps *bound.Steps, text string, obj *unstructured.Unstructured) ([]field, error) {
	if len(text) > longestJQ {
		return nil, fmt.Errorf("%d bytes are more than the limit of %d", len(text), longestJQ)
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
		if len(fields) > jsonpath.Most {
			return nil, fmt.Errorf("matches more than %d fields", jsonpath.Most)
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
