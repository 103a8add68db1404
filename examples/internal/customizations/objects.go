// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customizations

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// errNoObjects is wrapped by the error for a file without objects.
var errNoObjects = errors.New("has no objects")

// ReadObjects returns the objects of a file: those of its YAML documents, and of lists in them.
func ReadObjects(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(path, content)
}

func decode(path string, content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	n := 0
	for document, err := range yamldoc.Split(content) {
		n++
		if err == nil {
			objects, err = parse(objects, document)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", path, n, err)
		}
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s %w", path, errNoObjects)
	}
	return objects, nil
}

// parse adds the objects of a document, which may be empty.
func parse(objects []*unstructured.Unstructured, document yamldoc.Document) ([]*unstructured.Unstructured, error) {
	text, err := document.StrictJSON()
	if err != nil {
		return nil, err
	}
	var content any
	if err := utiljson.Unmarshal(text, &content); err != nil { // it decodes integers as int64
		return nil, err
	}
	if content == nil {
		return objects, nil
	}
	return add(objects, content, "the document")
}

func add(objects []*unstructured.Unstructured, content any, what string) ([]*unstructured.Unstructured, error) {
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object with apiVersion and kind", what)
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return nil, fmt.Errorf("%s has no kind or no apiVersion", what)
	}
	if object.GetKind() != "List" {
		return append(objects, object), nil
	}
	items, ok := fields["items"].([]any)
	if !ok {
		return nil, fmt.Errorf("items of the List must be a list")
	}
	for i, item := range items {
		var err error
		if objects, err = add(objects, item, fmt.Sprintf("items[%d]", i)); err != nil {
			return nil, err
		}
	}
	return objects, nil
}
