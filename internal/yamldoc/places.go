// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Place is a line and column in a file, counted from 1. A column counts characters; 0 is unknown.
type Place struct{ Line, Column int }

// Places finds the values of a document in its file, for messages.
type Places struct {
	document *Document
	root     *yamlv3.Node
}

// Places returns the places of a document that could be converted to JSON.
func (d *Document) Places() Places {
	defer takeTurn(d.Text)()
	p := Places{document: d}
	if len(d.Text) > MaxBytes || memory(d.Text) > maxMemory {
		return p
	}
	var root yamlv3.Node
	if yamlv3.Unmarshal(d.Text, &root) == nil && len(root.Content) == 1 {
		p.root = root.Content[0]
	}
	return p
}

// Key returns the place of the last field in a path of fields and indices. If there is no such
// field, it is the place of the innermost value around it.
func (p Places) Key(path ...string) Place {
	key, value := p.find(path)
	if key == nil {
		key = value
	}
	return p.of(key)
}

// Value returns the place of the value at a path, or of the innermost value around it.
func (p Places) Value(path ...string) Place {
	_, value := p.find(path)
	return p.of(value)
}

func (p Places) of(n *yamlv3.Node) Place {
	if n == nil {
		return Place{Line: p.document.Line}
	}
	return Place{p.document.Start + n.Line - 1, n.Column}
}

func (p Places) find(path []string) (key, value *yamlv3.Node) {
	value = p.root
	for _, name := range path {
		if value != nil && value.Kind == yamlv3.AliasNode {
			value = value.Alias
		}
		if value == nil {
			return nil, nil
		}
		switch value.Kind {
		case yamlv3.MappingNode:
			around := value
			for pair := range slices.Chunk(around.Content, 2) {
				if pair[0].Value == name {
					key, value = pair[0], pair[1]
				}
			}
			if value == around {
				return nil, value
			}
		case yamlv3.SequenceNode:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(value.Content) {
				return nil, value
			}
			key, value = nil, value.Content[i]
		default:
			return nil, value
		}
	}
	return key, value
}

// Text is the place of a text. The places of its characters are known only in literal blocks, and
// on one line without escapes.
type Text struct {
	Place
	lines  bool // a literal block, indented
	exact  bool // one line without escapes
	indent int
}

// Text returns the place of the text at a path.
func (p Places) Text(path ...string) Text {
	_, n := p.find(path)
	if n != nil && n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	t := Text{Place: p.of(n)}
	if n == nil || n.Kind != yamlv3.ScalarNode {
		return t
	}
	lines := strings.Split(string(p.document.Text), "\n")
	switch {
	case n.Style&yamlv3.LiteralStyle != 0:
		for i, line := range strings.Split(n.Value, "\n") {
			if text := strings.TrimLeft(line, " "); text != "" && n.Line+i < len(lines) {
				t.lines = true
				t.indent = indent(lines[n.Line+i]) - indent(line)
				break
			}
		}
	case n.Style&yamlv3.FoldedStyle == 0 && n.Line <= len(lines):
		line := []rune(lines[n.Line-1])
		rest := string(line[min(n.Column-1, len(line)):])
		for strings.HasPrefix(rest, "&") || strings.HasPrefix(rest, "!") { // an anchor or a tag
			_, rest, _ = strings.Cut(rest, " ")
			rest = strings.TrimLeft(rest, " ")
		}
		if n.Style&(yamlv3.SingleQuotedStyle|yamlv3.DoubleQuotedStyle) != 0 && rest != "" {
			rest = rest[1:]
		}
		if strings.HasPrefix(rest, n.Value) {
			t.exact, t.Column = true, 1+len(line)-utf8.RuneCountInString(rest)
		}
	}
	return t
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// At returns the place of a character of the text, given its line and column in the text, from 1.
// If that place is unknown, or the line is 0, At returns the place of the text.
func (t Text) At(line, column int) Place {
	switch {
	case line < 1 || column < 1:
	case t.lines:
		return Place{t.Line + line, t.indent + column}
	case t.exact && line == 1:
		return Place{t.Line, t.Column + column - 1}
	}
	return t.Place
}
