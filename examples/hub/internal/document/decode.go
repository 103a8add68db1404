// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

const (
	// MaxBytes is the maximum size of a document.
	MaxBytes = 1 << 20
	// MaxValues is the maximum number of its fields and list elements. An element with three bytes
	// of text can take hundreds of bytes in memory.
	MaxValues = 100_000
)

// Error is a problem of a document, with its position.
type Error struct {
	// Where is the file and the number of the document in it, starting at 1. For documents of the
	// API it is the kind and name.
	Where string
	// Field is the path of the field: spec.parts[0].name. It is empty for the document as a whole.
	Field   string
	Problem string
}

// Error returns Where, Field and Problem.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Where + ": " + e.Problem
	}
	return e.Where + ": " + e.Field + ": " + e.Problem
}

// Document is a decoded document.
type Document struct {
	Kind Kind
	Name string
	// Where is the origin of the document, as in [Error].
	Where string
	// Object is a *Cluster, an *Application, a *Placement or a configuration of webhooks. JSON is
	// the same as text. Neither may be changed.
	Object any
	JSON   []byte
}

// Decode decodes all documents of a file or of a request. where names the file or request. Empty
// documents are skipped.
func Decode(data []byte, where string) ([]*Document, error) {
	var out []*Document
	for part, err := range yamldoc.Split(data) {
		if err != nil {
			return nil, &Error{Where: where, Problem: err.Error()}
		}
		d, err := decodeOne(part, fmt.Sprintf("%s, document %d", where, len(out)+1))
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// DecodeOne decodes one document and sets its Where to kind and name.
func DecodeOne(data []byte) (*Document, error) {
	all, err := Decode(data, "the body")
	if err != nil {
		var known *Error
		if errors.As(err, &known) {
			known.Where = strings.TrimSuffix(known.Where, ", document 1")
		}
		return nil, err
	}
	if len(all) != 1 {
		return nil, &Error{Where: "the body", Problem: fmt.Sprintf("must have one document, not %d", len(all))}
	}
	all[0].Where = fmt.Sprintf("%s %s", all[0].Kind, all[0].Name)
	return all[0], nil
}

func decodeOne(part yamldoc.Document, where string) (d *Document, err error) {
	if len(part.Text) > MaxBytes {
		return nil, &Error{
			Where:   where,
			Problem: fmt.Sprintf("must have at most %d bytes, not %d", MaxBytes, len(part.Text)),
		}
	}
	part.UseStrictJSON(func(raw []byte, failed error) {
		switch {
		case errors.As(failed, new(*yamldoc.LimitError)):
			err = &Error{Where: where, Problem: failed.Error()}
		case failed != nil:
			err = &Error{where, part.Duplicate(), "invalid YAML: " + oneLine(failed.Error())}
		default:
			d, err = decodeJSON(raw, where)
		}
	})
	return d, err
}

func decodeJSON(raw []byte, where string) (*Document, error) {
	if jsontext.Count(raw, MaxValues) > MaxValues {
		return nil, &Error{
			Where: where, Problem: fmt.Sprintf("must have at most %d fields and elements of lists", MaxValues),
		}
	}
	var h struct {
		APIVersion string          `json:"apiVersion"`
		Kind       Kind            `json:"kind"`
		Metadata   json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, typeError(where, raw, err)
	}
	at := slices.Index(Kinds(), h.Kind)
	if at < 0 {
		var names []string
		for _, k := range Kinds() {
			names = append(names, string(k))
		}
		return nil, &Error{where, "kind", fmt.Sprintf("%q: must be one of %s", h.Kind, strings.Join(names, ", "))}
	}
	if version := kinds[at].version; h.APIVersion != version {
		return nil, &Error{where, "apiVersion", fmt.Sprintf("%q: must be %q for kind %s", h.APIVersion, version, h.Kind)}
	}
	object := kinds[at].create()
	strict, err := kjson.UnmarshalStrict(raw, object)
	if err != nil {
		return nil, typeError(where, raw, err)
	}
	if len(strict) > 0 {
		return nil, strictError(where, strict[0])
	}
	d := &Document{Kind: h.Kind, Name: object.GetName(), Where: where, Object: object, JSON: raw}
	if d.Name == "" {
		return nil, &Error{where, "metadata.name", "is required"}
	}
	if wrong := check(object); wrong != nil {
		return nil, &Error{where, wrong.Field, wrong.ErrorBody()}
	}
	_, err = d.rollout(func(c Clusters) []string { return c.Names }) // labels are unknown here
	return d, err
}

// strictError returns the error for an unknown or duplicate field.
func strictError(where string, err error) error {
	out := &Error{Where: where, Problem: err.Error()}
	var field kjson.FieldError
	if errors.As(err, &field) {
		kind, _, _ := strings.Cut(err.Error(), " field ")
		out.Field, out.Problem = field.FieldPath(), kind+" field"
	}
	return out
}

var space = regexp.MustCompile(`\s+`)

func oneLine(text string) string {
	return space.ReplaceAllString(strings.TrimPrefix(text, "yaml: "), " ")
}

// WithName returns an Error if the document does not have this kind and name.
func (d *Document) WithName(kind Kind, name string) error {
	switch {
	case d.Kind != kind:
		return &Error{d.Where, "kind", fmt.Sprintf("%s: must be %s here", d.Kind, kind)}
	case d.Name != name:
		return &Error{d.Where, "metadata.name", fmt.Sprintf("%q: must be %q here", d.Name, name)}
	}
	return nil
}

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
	if place := yamldoc.PathAt(raw, wrong.Offset); strings.HasPrefix(brackets.ReplaceAllString(place, ""), out.Field) {
		out.Field = place
	}
	return out
}

var brackets = regexp.MustCompile(`\[[^]]*\]`)
