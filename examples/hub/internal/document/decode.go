// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/rawjson"
	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

const (
	// MaxBytes is how large a document may be.
	MaxBytes = 1 << 20
	// MaxValues is the limit of its fields and list elements. An element with three bytes of text
	// can take hundreds of bytes in memory.
	MaxValues = 100_000
)

// Error says what is wrong with a document, and where.
type Error struct {
	// Where is the file and the number of the document in it, from 1, or the kind and name of one that came otherwise.
	Where string
	// Field is the path of the field: spec.parts[0].name. It is empty where it is the document as a whole.
	Field   string
	Problem string
}

// Error returns all three.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Where + ": " + e.Problem
	}
	return e.Where + ": " + e.Field + ": " + e.Problem
}

// Document is one document.
type Document struct {
	Kind Kind
	Name string
	// Where says where it comes from.
	Where string
	// Object is a *Cluster, an *Application, a *Placement or the configuration of webhooks, and JSON the same as text. Neither may be changed.
	Object any
	JSON   []byte
}

// Decode reads all documents of a file, or of a request; where names that. Parts without content do not count.
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

// DecodeOne reads one document, of which it says where it is from by kind and name.
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
		return nil, &Error{Where: "the body", Problem: fmt.Sprintf("it has %d documents and must have one", len(all))}
	}
	all[0].Where = fmt.Sprintf("%s %s", all[0].Kind, all[0].Name)
	return all[0], nil
}

func decodeOne(part yamldoc.Document, where string) (d *Document, err error) {
	if len(part.Text) > MaxBytes {
		return nil, &Error{
			Where:   where,
			Problem: fmt.Sprintf("it has %d bytes, and may have %d", len(part.Text), MaxBytes),
		}
	}
	part.UseStrictJSON(func(raw []byte, failed error) {
		switch {
		case errors.As(failed, new(*yamldoc.LimitError)):
			err = &Error{Where: where, Problem: failed.Error()}
		case failed != nil:
			err = &Error{where, duplicateIn(part.Text), "it is not valid YAML: " + oneLine(failed.Error())}
		default:
			d, err = decodeJSON(raw, where)
		}
	})
	return d, err
}

func decodeJSON(raw []byte, where string) (*Document, error) {
	if rawjson.Count(raw, MaxValues) > MaxValues {
		return nil, &Error{
			Where: where, Problem: fmt.Sprintf("it has more than %d fields and elements of lists", MaxValues),
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
	d := &Document{Kind: h.Kind, Where: where, JSON: raw}
	version := APIVersion
	switch h.Kind {
	case ClusterKind:
		d.Object = &Cluster{}
	case ApplicationKind:
		d.Object = &Application{}
	case PlacementKind:
		d.Object = &Placement{}
	case InterpretingKind:
		d.Object, version = &v1alpha1.ResourceInterpreterWebhookConfiguration{}, v1alpha1.GroupVersion.String()
	case ExploringKind:
		d.Object, version = &v1alpha1.ResourceExploringWebhookConfiguration{}, v1alpha1.GroupVersion.String()
	default:
		return nil, &Error{where, "kind", fmt.Sprintf("%q is none of %s", h.Kind, strings.Join(kindNames(), ", "))}
	}
	if h.APIVersion != version {
		return nil, &Error{where, "apiVersion", fmt.Sprintf("it is %q and must be %q for a %s", h.APIVersion, version, h.Kind)}
	}
	strict, err := kjson.UnmarshalStrict(raw, d.Object)
	if err != nil {
		return nil, typeError(where, raw, err)
	}
	if len(strict) > 0 {
		return nil, strictError(where, strict[0])
	}
	if d.Name = nameOf(d.Object); d.Name == "" {
		return nil, &Error{where, "metadata.name", "it is required"}
	}
	if wrong := check(d.Object); wrong != nil {
		return nil, &Error{where, wrong.Field, wrong.ErrorBody()}
	}
	_, err = d.rollout(func(c Clusters) []string { return c.Names }) // labels are not known here
	return d, err
}

// strictError is about a field that there is not, or that is there twice.
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

// WithName returns an Error where a document has another kind or name than those that it is asked to have.
func (d *Document) WithName(kind Kind, name string) error {
	switch {
	case d.Kind != kind:
		return &Error{d.Where, "kind", fmt.Sprintf("it is %s and must be %s here", d.Kind, kind)}
	case d.Name != name:
		return &Error{d.Where, "metadata.name", fmt.Sprintf("it is %q and must be %q here", d.Name, name)}
	}
	return nil
}
