// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// document is a document of a file.
type document struct {
	yamldoc.Document
	format string // for messages: "YAML" or "JSON"
}

// splitYAML returns the documents of a file. The YAML library counts lines from the start of a document.
func splitYAML(text []byte) (docs []document, err error) {
	for d, err := range yamldoc.Split(text) {
		if err != nil {
			return nil, err
		}
		docs = append(docs, document{d, "YAML"})
	}
	return docs, nil
}

// splitJSON splits a file with a sequence of JSON values.
func splitJSON(text []byte) ([]document, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	lineAt := func(offset int64) int { return 1 + bytes.Count(text[:min(int(offset), len(text))], []byte("\n")) }
	var docs []document
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			line, start := lineAt(d.InputOffset()), d.InputOffset()
			start += int64(len(text[start:]) - len(bytes.TrimLeft(text[start:], " \t\r\n")))
			if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
				line = lineAt(syntax.Offset)
			}
			return nil, fmt.Errorf("document %d (line %d): bad JSON: line %d: %w", len(docs)+1, lineAt(start), line,
				err)
		}
		line := lineAt(d.InputOffset() - int64(len(raw)))
		docs = append(docs, document{yamldoc.Document{Text: raw, Line: line, Start: line}, "JSON"})
	}
}

// yamlLine matches the line in an error of the YAML library, counted from the start of the
// document.
var yamlLine = regexp.MustCompile(`line (\d+):`)

// decode returns the object of a document, or the items of a List.
func decode(doc document, where string) ([]Object, error) {
	raw, err := doc.StrictJSON()
	if err != nil {
		text := yamlLine.ReplaceAllStringFunc(strings.TrimPrefix(err.Error(), "yaml: "), func(m string) string {
			n, _ := strconv.Atoi(yamlLine.FindStringSubmatch(m)[1])
			return fmt.Sprintf("line %d:", n+doc.Start-1)
		})
		return nil, fmt.Errorf("%s: bad %s: %s", where, doc.format, strings.Join(strings.Fields(text), " "))
	}
	var content any
	// This decoder returns int64 for integers, as unstructured objects require.
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return objectsOf(content, where)
}

func objectsOf(content any, where string) ([]Object, error) {
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: not an object, but %s", where, describe(content))
	}
	u := &unstructured.Unstructured{Object: fields}
	if err := hasType(u); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if items, ok := fields["items"].([]any); ok && strings.HasSuffix(u.GetKind(), "List") {
		var objects []Object
		for i, item := range items {
			inner, err := objectsOf(item, fmt.Sprintf("%s, item %d", where, i+1))
			if err != nil {
				return nil, err
			}
			objects = append(objects, inner...)
		}
		return objects, nil
	}
	if err := checkMetadata(fields["metadata"]); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", where, u.GetKind(), err)
	}
	return []Object{{Unstructured: u, Where: where}}, nil
}

func hasType(u *unstructured.Unstructured) error {
	switch {
	case u.GetAPIVersion() == "":
		return errors.New("no apiVersion")
	case u.GetKind() == "":
		return errors.New("no kind")
	}
	_, err := schema.ParseGroupVersion(u.GetAPIVersion())
	return err
}

// checkMetadata requires a name, and correct types of all fields. YAML reads a bare y, no or 1.10
// as another type than a text, and the accessors of unstructured objects then ignore the field.
func checkMetadata(metadata any) error {
	fields, _ := metadata.(map[string]any)
	var typed metav1.ObjectMeta
	if _, err := decodeInto(map[string]any{"metadata": fields}, &struct {
		Metadata *metav1.ObjectMeta `json:"metadata"`
	}{&typed}); err != nil {
		return fmt.Errorf("bad metadata (texts such as \"y\", \"no\" and \"1\" must be quoted): %w", err)
	}
	if typed.Name == "" {
		return errors.New("no metadata.name")
	}
	return nil
}

func describe(content any) string {
	switch content.(type) {
	case nil:
		return "empty"
	case []any:
		return "a list"
	case string:
		return "a text"
	}
	return "a single value"
}
