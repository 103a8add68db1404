// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package schematest validates JSON with the JSON Schemas of a document, and responses with an OpenAPI
// document.
package schematest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a JSON Schema or an OpenAPI 3.1 document. Its methods may be called concurrently.
type Document struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	openAPI  openAPI
}

// openAPI has the responses by path, method and status.
type openAPI struct {
	Paths map[string]map[string]struct {
		Responses map[string]json.RawMessage `json:"responses"`
	} `json:"paths"`
}

const location = "file:///document.json"

// New parses a document.
func New(text []byte) (*Document, error) {
	d := &Document{compiler: jsonschema.NewCompiler()}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d.openAPI); err != nil {
		return nil, err
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(location, parsed)
}

// Validate validates a value with the schema at a JSON pointer, for example "/components/schemas/Error".
// An empty pointer is the whole document.
func (d *Document) Validate(pointer string, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile(location + "#" + pointer)
	if err != nil {
		return err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return schema.Validate(parsed)
}

// Response validates a response in JSON to a request for a path, such as "/api/v1/status".
func (d *Document) Response(method, path string, code int, body []byte) error {
	template := d.template(path)
	responses := d.openAPI.Paths[template][strings.ToLower(method)].Responses
	key := strconv.Itoa(code)
	if responses[key] == nil && code >= 400 {
		key = "default"
	}
	if responses[key] == nil && code < 400 {
		return fmt.Errorf("%s %s has no response %d in the OpenAPI document", method, path, code)
	}
	if responses[key] == nil { // a method or path that does not exist
		return d.Validate("/components/schemas/Failure", body)
	}
	escaped := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(template)
	pointer := fmt.Sprintf("/paths/%s/%s/responses/%s/content/application~1json/schema",
		escaped, strings.ToLower(method), key)
	if err := d.Validate(pointer, body); err != nil {
		return fmt.Errorf("%s %s: response %d: %w", method, path, code, err)
	}
	return nil
}

// template returns the path of the document that a path matches, the one with most fixed words first.
func (d *Document) template(path string) (best string) {
	words, most := strings.Split(path, "/"), -1
	for template := range d.openAPI.Paths {
		fixed, of := 0, strings.Split(template, "/")
		for i := range of {
			switch {
			case len(of) != len(words), !strings.HasPrefix(of[i], "{") && of[i] != words[i]:
				fixed = -len(of)*2 - 2
			case of[i] == words[i]:
				fixed++
			}
		}
		if fixed > most {
			best, most = template, fixed
		}
	}
	return best
}
