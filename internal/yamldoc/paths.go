// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	yamlv3 "go.yaml.in/yaml/v3"
)

// PathAt returns the path of the first value that extends to an offset of valid JSON, for example
// spec.parts[0].name: the position at which a decoder stopped. It returns "" for the value as a
// whole.
func PathAt(raw []byte, offset int64) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	var find func(path string) (string, bool)
	find = func(path string) (string, bool) {
		token, err := decoder.Token()
		if err != nil || decoder.InputOffset() >= offset {
			return path, true
		}
		list := token == json.Delim('[')
		if !list && token != json.Delim('{') {
			return "", false
		}
		for i := 0; decoder.More(); i++ {
			at := element(path, i)
			if !list {
				key, _ := decoder.Token()
				at = member(path, fmt.Sprint(key))
			}
			if found, ok := find(at); ok {
				return found, true
			}
		}
		_, _ = decoder.Token() // its end
		return "", false
	}
	path, _ := find("")
	return path
}

// Duplicate returns the path of the first duplicate key, or "". It returns "" for documents of more
// than 64 KiB, to avoid parsing them again.
func (d *Document) Duplicate() string {
	const large = 64 << 10
	var root yamlv3.Node
	if len(d.Text) > large || yamlv3.Unmarshal(d.Text, &root) != nil {
		return ""
	}
	return duplicate(&root, "")
}

// duplicate searches a node. It does not follow aliases: their anchors are searched at their own
// position.
func duplicate(node *yamlv3.Node, path string) string {
	seen := map[string]bool{}
	for i, child := range node.Content {
		at := path
		switch {
		case node.Kind == yamlv3.SequenceNode:
			at = element(path, i)
		case node.Kind == yamlv3.MappingNode && i%2 == 0:
			continue // a key
		case node.Kind == yamlv3.MappingNode:
			key := node.Content[i-1].Value
			if at = member(path, key); seen[key] {
				return at
			}
			seen[key] = true
		}
		if found := duplicate(child, at); found != "" {
			return found
		}
	}
	return ""
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// member returns the path of a field, or of the key of a map.
func member(path, key string) string {
	switch {
	case !plain.MatchString(key):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
