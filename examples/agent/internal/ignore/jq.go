// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"

	"github.com/spokewire/sdk-go/examples/agent/internal/jsonpath"
)

// byJQ evaluates a path expression of jq.
func byJQ(ctx context.Context, text string, manifest map[string]any) ([]path, error) {
	if len(text) > longestJQ {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(text), longestJQ)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := allowed(query); err != nil {
		return nil, err
	}
	if query, err = gojq.Parse("path(" + text + ")"); err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query) // without an environment, modules and input
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	var input any // with the number types that gojq reads
	if err := json.Unmarshal(content, &input); err != nil {
		return nil, err
	}
	var paths []path
	for results := code.RunWithContext(ctx, input); ; {
		result, ok := results.Next()
		if !ok {
			return paths, nil
		}
		if err, failed := result.(error); failed {
			return nil, err
		}
		steps, _ := result.([]any)
		p, exists, err := jqPath(steps, input)
		if err != nil {
			return nil, err
		}
		if exists {
			paths = append(paths, p)
		}
		if len(paths) > jsonpath.Most {
			return nil, fmt.Errorf("it finds more than %d fields", jsonpath.Most)
		}
	}
}

// jqPath: jq returns paths to what is not there as well.
func jqPath(steps []any, at any) (p path, exists bool, err error) {
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			object, _ := at.(map[string]any)
			if !has(object, step) {
				return nil, false, nil
			}
			p, at = p.with(step), object[step]
		case int:
			list, _ := at.([]any)
			if step < 0 {
				step += len(list)
			}
			if step < 0 || step >= len(list) {
				return nil, false, nil
			}
			p, at = p.with(step), list[step]
		default:
			return nil, false, errors.New("slices of lists are not supported: name the items, as .[2]")
		}
	}
	return p, true, nil
}
