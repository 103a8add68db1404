// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CheckPointer returns an error for a JSON pointer to a field that cannot be ignored in a manifest,
// which may be nil.
func CheckPointer(manifest *unstructured.Unstructured, pointer string) error {
	tokens, err := parsePointer(pointer)
	if err != nil || manifest == nil {
		return err
	}
	return fits(manifest.Object, tokens)
}

func parsePointer(text string) ([]string, error) {
	if text == "" {
		return nil, errors.New("must not be the whole object: use the strategy CreateOnly or ReadOnly")
	}
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("must begin with /")
	}
	for i := range len(text) {
		if text[i] == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return nil, errors.New("must have ~0 for ~")
		}
	}
	tokens := strings.Split(text[1:], "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	switch {
	case tokens[0] == "apiVersion", tokens[0] == "kind":
		return nil, errors.New("must not be apiVersion or kind")
	case tokens[0] == "metadata" && (len(tokens) == 1 || tokens[1] == "name" || tokens[1] == "namespace"):
		return nil, errors.New("must not include the name or the namespace")
	}
	return tokens, nil
}

// fits returns an error if a token for a list is not a number.
func fits(at any, tokens []string) error {
	for _, token := range tokens {
		switch value := at.(type) {
		case map[string]any:
			at = value[token]
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || strconv.Itoa(index) != token {
				return fmt.Errorf("must have the index of a list item in place of %q", token)
			}
			if index >= len(value) {
				return nil
			}
			at = value[index]
		default:
			return nil
		}
	}
	return nil
}
