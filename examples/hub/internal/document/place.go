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

// level is an object or a list that is not closed yet.
type level struct {
	path  *field.Path
	list  bool
	index int    // of the next element
	key   string // of the value that is next
	value bool   // whether a value is next, and not a key
}

// placeAt returns the path of the first JSON value that extends to an offset: the position at which
// a decoder stopped.
func placeAt(raw []byte, offset int64) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	levels := []*level{{value: true}}
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		l := levels[len(levels)-1]
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if key, ok := token.(string); ok && !l.list && !l.value {
			l.key, l.value = key, true
			continue
		}
		path := l.next()
		if decoder.InputOffset() >= offset {
			if path == nil {
				return ""
			}
			return path.String()
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			levels = append(levels, &level{path: path, list: token == json.Delim('[')})
		}
	}
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
			if at = path.Key(key); plain.MatchString(key) {
				at = path.Child(key)
			}
			if seen[key] {
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

// next returns the path of the value that is next.
func (l *level) next() *field.Path {
	switch {
	case l.list:
		l.index++
		return l.path.Index(l.index - 1)
	case l.path == nil && l.key == "":
		return nil // the whole document
	}
	l.value = false
	if plain.MatchString(l.key) {
		return l.path.Child(l.key)
	}
	return l.path.Key(l.key)
}
