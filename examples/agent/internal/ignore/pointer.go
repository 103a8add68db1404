// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/examples/agent/internal/budget"
)

// byPointer follows a JSON pointer.
func byPointer(_ context.Context, steps *budget.Steps, text string, manifest map[string]any) ([]path, error) {
	if err := steps.Take("a JSON pointer", len(text)); err != nil {
		return nil, err
	}
	if text == "" {
		return []path{{}}, nil // the whole, says RFC 6901
	}
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, errors.New("a JSON pointer begins with /")
	}
	tokens := strings.Split(rest, "/")
	for i := range tokens {
		var err error
		if tokens[i], err = unescape(tokens[i]); err != nil {
			return nil, err
		}
	}
	p := make(path, 0, len(tokens))
	at := any(manifest)
	for _, token := range tokens {
		switch value := at.(type) {
		case map[string]any:
			if !has(value, token) {
				return nil, nil
			}
			p, at = append(p, token), value[token]
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || strconv.Itoa(index) != token {
				return nil, errors.New("the items of a list are numbered from 0: " + strconv.Quote(token) + " is no such number")
			}
			if index >= len(value) {
				return nil, nil
			}
			p, at = append(p, index), value[index]
		default:
			return nil, nil
		}
	}
	return []path{p}, nil
}

func unescape(token string) (string, error) {
	for i := range len(token) {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return "", errors.New("~ is written as ~0")
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"), nil
}
