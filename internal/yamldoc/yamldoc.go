// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package yamldoc reads YAML and JSON documents of users and peers. Every package of the SDK reads
// such documents with it, and archtest lists the exceptions.
//
// Aliases, anchors and merge keys are accepted, as in kubectl, but a document with its aliases
// replaced may have only [MaxExpanded] bytes. YAML parsers limit the number of values, but not
// their size: 170 kB can become 4.3 GiB. A parser allocates up to 280 times the size of a document.
// The package therefore refuses documents with very many small parts, and limits the memory of all
// documents that are parsed at a time.
//
// Errors never quote a value of a document.
package yamldoc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/internal/turns"
)

const (
	// MaxBytes is the size limit of a document as written, as in etcd.
	MaxBytes = 3 << 19
	// MaxExpanded is the size limit of a document with its aliases replaced, as in the API server.
	MaxExpanded = 3 << 20
	// MaxDepth is the limit of nested values, as in encoding/json.
	MaxDepth = 10_000
	// MaxDocuments is the limit of documents in a file.
	MaxDocuments = 100_000

	// growth is the size limit of the documents of a file in JSON, as a multiple of the size of the
	// file. JSON may need six bytes for a character.
	growth = 8
	// maxMemory is approximately the maximum number of bytes for parsing a document, maxTogether
	// that for all documents that are parsed at a time.
	maxMemory, maxTogether = 96 << 20, 128 << 20
	// small is the size up to which documents do not wait for larger ones.
	small = 1 << 20
	// The memory that the parser needs for a byte of a long string, for a value, and for an object.
	textCost, nodeCost, objectCost = 12, 160, 640
)

// LimitError is returned for a document or a file that exceeds a limit. Its text contains no part
// of the document.
type LimitError struct{ problem string }

// Error implements error.
func (e *LimitError) Error() string { return e.problem }

func limit(format string, args ...any) error { return &LimitError{fmt.Sprintf(format, args...)} }

// JSON converts a document to JSON. If a key is repeated, the last value counts.
func JSON(text []byte) ([]byte, error) {
	defer takeTurn(text)()
	return convert(text, yaml.YAMLToJSON)
}

// StrictJSON converts a document to JSON. A repeated key is an error.
func StrictJSON(text []byte) ([]byte, error) {
	defer takeTurn(text)()
	return convert(text, yaml.YAMLToJSONStrict)
}

var parsing = turns.New(maxTogether)

// takeTurn waits until memory to parse a document is available. It returns the function that
// releases the memory.
func takeTurn(text []byte) (release func()) {
	size, client := memory(text), "small"
	if hasAliases(text) {
		size = maxMemory
	}
	if size > maxMemory || len(text) > MaxBytes {
		return func() {} // the document is refused
	}
	if size > small {
		client = "large"
	}
	// Go collects the garbage of several documents only when the memory has doubled.
	release, _ = parsing.Take(context.Background(), client, min(2*size, maxMemory))
	return release // without an error, since the context does not end
}

// memory returns approximately how much memory a parser needs for a text, or more: it counts the
// characters that separate values, also inside strings.
func memory(text []byte) int {
	anchors := bytes.IndexByte(text, '&') >= 0
	size := 0
	for i, c := range text {
		switch c {
		case ',', '[':
			size += nodeCost
		case '{':
			size += nodeCost + objectCost
		case '?':
			size += 2*nodeCost + objectCost
		case '-':
			if endsWord(text, i+1) {
				size += nodeCost
			}
		case ':':
			// A colon in the middle of a word is part of the word. An anchor ends before a colon.
			if anchors || endsWord(text, i+1) || !inWord(text, i-1) {
				size += 2*nodeCost + objectCost
			}
		}
	}
	return max(size, textCost*len(text))
}

func endsWord(text []byte, i int) bool {
	return i >= len(text) || text[i] <= ' ' || text[i] >= 0x80 // line breaks of Unicode, too
}

func inWord(text []byte, i int) bool {
	if i < 0 {
		return false
	}
	c := text[i]
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '/'
}

func hasAliases(text []byte) bool {
	return bytes.IndexByte(text, '*') >= 0 && bytes.IndexByte(text, '&') >= 0
}

func convert(text []byte, parse func([]byte) ([]byte, error)) ([]byte, error) {
	if len(text) > MaxBytes {
		return nil, limit("the document has %d bytes, and %d are allowed", len(text), MaxBytes)
	}
	if memory(text) > maxMemory {
		return nil, errTooMany
	}
	if hasAliases(text) {
		if err := checkAliases(text); err != nil {
			return nil, err
		}
	}
	out, err := parse(text)
	if err != nil {
		return nil, withoutValues(err)
	}
	if Depth(out) > MaxDepth {
		return nil, errTooDeep
	}
	return out, nil
}

var (
	errTooMany = limit("the document has so many small parts that it would take more than %d bytes of memory: "+
		"make it simpler", maxMemory)
	errTooDeep = limit("the document has more than %d levels", MaxDepth)
)

// checkAliases checks the limits of a document with its aliases replaced. It follows each anchor
// once.
func checkAliases(text []byte) error {
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(text, &root); err != nil {
		return withoutValues(err)
	}
	_, err := anchors{}.count(&root)
	return err
}

// size is the size of a node with its aliases replaced.
type size struct{ bytes, memory, depth int }

// anchors has the sizes of the nodes with an anchor.
type anchors map[*yamlv3.Node]size

func (a anchors) count(n *yamlv3.Node) (size, error) {
	if n.Kind == yamlv3.AliasNode {
		s, ok := a[n.Alias]
		if !ok { // its size is being counted
			return s, errors.New("an anchor contains itself")
		}
		return s, nil
	}
	s := size{bytes: 1 + len(n.Value), memory: nodeCost}
	if n.Kind == yamlv3.MappingNode {
		s.memory += objectCost
	}
	for _, child := range n.Content {
		part, err := a.count(child)
		if err != nil {
			return s, err
		}
		s.bytes += part.bytes
		s.memory += part.memory
		s.depth = max(s.depth, 1+part.depth)
		if s.bytes > MaxExpanded {
			return s, limit("the document has more than %d bytes with its aliases replaced", MaxExpanded)
		}
		if s.memory > maxMemory {
			return s, errTooMany
		}
		if s.depth > MaxDepth {
			return s, errTooDeep
		}
	}
	if n.Anchor != "" {
		a[n] = s
	}
	return s, nil
}

// Depth returns the number of objects and lists around the innermost value of a text in JSON.
func Depth(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// quoted matches the values in the messages of the parser, but not the single characters that it
// expected.
var quoted = regexp.MustCompile("(?s)`.*`|'[^']{2,}'|(invalid map key|unsupported map key of type).*")

// withoutValues returns an error without the values that the parser quotes. Repeated keys stay in
// the message.
func withoutValues(err error) error {
	const longest = 1000
	text := quoted.ReplaceAllStringFunc(err.Error(), func(s string) string {
		if strings.Contains(s, "map key") {
			return "a key is not a string"
		}
		return "(value omitted)"
	})
	return errors.New(cut.Text(text, longest))
}

// line matches the line number in an error of the parser.
var line = regexp.MustCompile(`(?s)^.*?line (\d+): `)

// Problem returns the line of an error of [Document.StrictJSON] in the file, and the error with the
// text of the parser. A [*LimitError] is unchanged.
func (d Document) Problem(err error) (int, error) {
	if _, limited := errors.AsType[*LimitError](err); limited {
		return d.Line, err
	}
	at, message := d.Line, strings.TrimPrefix(err.Error(), "yaml: ")
	if found := line.FindStringSubmatch(message); found != nil {
		n, _ := strconv.Atoi(found[1])
		at, message = d.Start+n-1, strings.TrimPrefix(message, found[0])
	}
	return at, errors.New("invalid YAML: " + message)
}

// Document is a document of a file.
type Document struct {
	Text []byte
	// Line is the number of the first line with content, from 1. Start is the number of the first
	// line of Text.
	Line, Start int

	left *int // remaining bytes of JSON for the documents of the file
}

// JSON is like the function [JSON]. In addition, it limits the size of the whole file.
func (d Document) JSON() ([]byte, error) { return d.spend(JSON(d.Text)) }

// StrictJSON is like the function [StrictJSON]. In addition, it limits the size of the whole file.
func (d Document) StrictJSON() ([]byte, error) { return d.spend(StrictJSON(d.Text)) }

// UseStrictJSON calls use with the result of [Document.StrictJSON]. The document counts as being
// parsed until use returns, so the memory of several documents does not add up. Function use must
// not call this package.
func (d Document) UseStrictJSON(use func(text []byte, err error)) {
	defer takeTurn(d.Text)()
	use(d.spend(convert(d.Text, yaml.YAMLToJSONStrict)))
}

func (d Document) spend(out []byte, err error) ([]byte, error) {
	if err != nil || d.left == nil { // nil without Split
		return out, err
	}
	if *d.left -= len(out); *d.left < 0 {
		return nil, limit("the file becomes more than %d times as large with its aliases replaced", growth)
	}
	return out, nil
}

// Split returns the documents of a file that have content. YAML documents are separated by lines
// that begin with three dashes or three dots. JSON values may also follow each other. The error is
// a [*LimitError] for more than [MaxDocuments].
func Split(text []byte) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		n, left := 0, max(MaxExpanded, growth*len(text))
		for d := range split(bytes.TrimPrefix(text, []byte("\ufeff"))) {
			d.left = &left
			if n++; n > MaxDocuments {
				yield(d, limit("the file has more than %d documents", MaxDocuments))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func split(text []byte) iter.Seq[Document] {
	return func(yield func(Document) bool) {
		line, rest := 1, text
		if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] == '{' {
			decoder := json.NewDecoder(bytes.NewReader(text))
			for at := 0; ; {
				var raw json.RawMessage
				if decoder.Decode(&raw) != nil {
					rest = text[at:]
					break
				}
				end := int(decoder.InputOffset())
				first := line + bytes.Count(text[at:end-len(raw)], []byte("\n"))
				if !yield(Document{Text: text[end-len(raw) : end], Line: first, Start: first}) {
					return
				}
				line, at = line+bytes.Count(text[at:end], []byte("\n")), end
			}
		}
		splitYAML(rest, line, yield)
	}
}

func splitYAML(text []byte, line int, yield func(Document) bool) {
	d := Document{Start: line}
	from := 0
	for at := 0; at < len(text); line++ {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		content := bytes.TrimSpace(text[at:end])
		if separator(text[at:end]) {
			if d.Line != 0 {
				d.Text = text[from:at]
				if !yield(d) {
					return
				}
			}
			content = bytes.TrimSpace(content[3:])
			if from, d = at, (Document{Start: line}); len(content) == 0 || content[0] == '#' {
				from, d.Start = end, line+1
			}
		}
		if d.Line == 0 && len(content) > 0 && content[0] != '#' && content[0] != '%' {
			d.Line = line
		}
		at = end
	}
	if d.Line != 0 {
		d.Text = text[from:]
		yield(d)
	}
}

func separator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0
}
