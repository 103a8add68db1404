// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// typeError returns the error for a value of the wrong type.
func typeError(where string, raw []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return &Error{Where: where, Problem: oneLine(err.Error())}
	}
	article := "a"
	if strings.HasPrefix(wrong.Value, "array") || strings.HasPrefix(wrong.Value, "object") {
		article = "an"
	}
	out := &Error{
		where, strings.TrimPrefix(wrong.Field, "Header."), fmt.Sprintf("must not be %s %s", article, wrong.Value),
	}
	// YAML has many spellings of these
	if kind, _, _ := strings.Cut(wrong.Value, " "); wrong.Type.Kind() == reflect.String &&
		(kind == "bool" || kind == "number") {
		out.Problem = fmt.Sprintf("must be a string, not a %s: put it in quotes", wrong.Value)
	}
	// The error does not name elements of lists and keys of maps. If a type decodes itself, the
	// offset is relative to a part.
	if place := placeAt(raw, wrong.Offset); strings.HasPrefix(brackets.ReplaceAllString(place, ""), out.Field) {
		out.Field = place
	}
	return out
}

var (
	brackets = regexp.MustCompile(`\[[^]]*\]`)
	plain    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// placeAt returns the path of the first value that extends to an offset of valid JSON: the position
// at which a decoder stopped.
func placeAt(raw []byte, offset int64) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	var find func(path *field.Path) *field.Path
	find = func(path *field.Path) *field.Path {
		token, err := decoder.Token()
		if err != nil || decoder.InputOffset() >= offset {
			return path
		}
		list := token == json.Delim('[')
		if !list && token != json.Delim('{') {
			return nil
		}
		for i := 0; decoder.More(); i++ {
			at := path.Index(i)
			if !list {
				key, _ := decoder.Token()
				at = member(path, fmt.Sprint(key))
			}
			if found := find(at); found != nil {
				return found
			}
		}
		_, _ = decoder.Token() // its end
		return nil
	}
	if path := find(nil); path != nil {
		return path.String()
	}
	return ""
}

// member returns the path of a field, or of the key of a map.
func member(path *field.Path, key string) *field.Path {
	if plain.MatchString(key) {
		return path.Child(key)
	}
	return path.Key(key)
}

// duplicateIn returns the path of the first duplicate key of a YAML text, or "". It returns "" for
// texts of more than 64 KiB, to avoid parsing them again.
func duplicateIn(text []byte) string {
	const large = 64 << 10
	var root yamlv3.Node
	if len(text) > large {
		return ""
	}
	if err := yamlv3.Unmarshal(text, &root); err != nil {
		return ""
	}
	if path := duplicate(&root, nil); path != nil {
		return path.String()
	}
	return ""
}

// duplicate searches a node. It does not follow aliases: their anchors are searched at their own
// position.
func duplicate(node *yamlv3.Node, path *field.Path) *field.Path {
	seen := map[string]bool{}
	for i, child := range node.Content {
		at := path
		switch {
		case node.Kind == yamlv3.SequenceNode:
			at = path.Index(i)
		case node.Kind == yamlv3.MappingNode && i%2 == 0:
			continue // a key
		case node.Kind == yamlv3.MappingNode:
			key := node.Content[i-1].Value
			if at = member(path, key); seen[key] {
				return at
			}
			seen[key] = true
		}
		if found := duplicate(child, at); found != nil {
			return found
		}
	}
	return nil
}
