// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Kind is the kind of the documents. Their apiVersion is [v1alpha1.GroupVersion].
const Kind = "InterpreterCustomization"

const (
	mostBytes   = 256 << 10 // of a document
	mostTargets = 10_000    // of all customizations
	// mostNodes is the limit for all expressions together. So many nodes use about 15 MB, and take at
	// most 10 s to compile.
	mostNodes = 100_000
)

// document is a decoded customization.
type document struct {
	APIVersion string                     `json:"apiVersion"`
	Kind       string                     `json:"kind"`
	Metadata   metav1.ObjectMeta          `json:"metadata"`
	Spec       map[string]json.RawMessage `json:"spec"`
}

// loader reads the files of one call of Set.
type loader struct {
	*compiler
	table  table
	owners map[schema.GroupVersionKind]string // the customizations of the targets, with their positions
	names  map[string]string                  // the positions of the customizations
	nodes  int
	file   string
	name   string // of the customization
	places yamldoc.Places
}

func (c *compiler) load(files []File) (*table, error) {
	l := &loader{
		compiler: c, owners: map[schema.GroupVersionKind]string{}, names: map[string]string{},
		table: table{exact: map[schema.GroupVersionKind]*entry{}},
	}
	for n, file := range files {
		l.file = cmp.Or(file.Name, fmt.Sprintf("file %d", n+1))
		for document, err := range yamldoc.Split(file.Text) {
			if err == nil {
				err = l.read(document)
			} else {
				err = &Error{File: l.file, Line: document.Line, Err: err}
			}
			if err != nil {
				return nil, err
			}
		}
	}
	l.table.sort()
	return &l.table, nil
}

// fail returns an error about the value at a path.
func (l *loader) fail(path []string, format string, args ...any) error {
	return l.failAt(l.places.Value(path...), path, fmt.Errorf(format, args...))
}

func (l *loader) failAt(at yamldoc.Place, path []string, err error) error {
	return &Error{File: l.file, Line: at.Line, Column: at.Column, Name: l.name, Field: fieldOf(path), Err: err}
}

// fieldOf returns a path in the form spec.targets[0].kind.
func fieldOf(path []string) string {
	var s strings.Builder
	for i, part := range path {
		if _, err := strconv.Atoi(part); err == nil {
			s.WriteString("[" + part + "]")
			continue
		}
		if i > 0 {
			s.WriteString(".")
		}
		s.WriteString(part)
	}
	return s.String()
}

// pathOf splits a path in the form of fieldOf and of package json.
func pathOf(field string) []string {
	return strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func (l *loader) read(text yamldoc.Document) error {
	l.name, l.places = "", yamldoc.Places{}
	if len(text.Text) > mostBytes {
		return &Error{File: l.file, Line: text.Line,
			Err: fmt.Errorf("the document has %d bytes, at most %d: split it", len(text.Text), mostBytes)}
	}
	raw, err := text.StrictJSON()
	if err != nil {
		at, err := text.Problem(err)
		return &Error{File: l.file, Line: at, Err: err}
	}
	l.places = text.Places()
	if err := l.kind(raw); err != nil {
		return err
	}
	var d document
	strict, err := kjson.UnmarshalStrict(raw, &d)
	if validName(d.Metadata.Name) {
		l.name = d.Metadata.Name
	}
	if err != nil {
		return l.mistyped(err)
	}
	if err := l.unknown(strict); err != nil {
		return err
	}
	return l.document(&d)
}

// kind checks kind and apiVersion. It is called first: fields of another kind are not mistakes.
func (l *loader) kind(raw []byte) error {
	var d metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &d); err != nil {
		return l.mistyped(err)
	}
	switch want := v1alpha1.GroupVersion.String(); {
	case d.Kind == "ResourceInterpreterCustomization":
		return l.fail([]string{"kind"},
			"%q is Karmada's kind with Lua scripts: load it with package interpreter/lua", d.Kind)
	case d.Kind != Kind:
		return l.fail([]string{"kind"}, "%q: write %s", d.Kind, Kind)
	case d.APIVersion != want:
		return l.fail([]string{"apiVersion"}, "%q: write %s", d.APIVersion, want)
	}
	return nil
}

func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// mistyped returns an error for a value of a wrong type in a document.
func (l *loader) mistyped(err error) error {
	return l.mistypedAt(nil, "an object with apiVersion, kind, metadata and spec", err)
}

// mistypedAt returns an error for a value of a wrong type at a path or below.
func (l *loader) mistypedAt(path []string, want string, err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return l.fail(path, "is invalid: %w", err)
	}
	got, inside := typesOf(kind)
	if kind.Field != "" {
		path, want = append(path, pathOf(kind.Field)...), inside
	}
	return l.fail(path, "is %s: write %s", got, want)
}

// unknown returns an error for a field that the type does not have.
func (l *loader) unknown(strict []error) error {
	if len(strict) == 0 {
		return nil
	}
	var field kjson.FieldError
	if !errors.As(strict[0], &field) {
		return l.fail(nil, "%w", strict[0])
	}
	path := pathOf(field.FieldPath())
	return l.failAt(l.places.Key(path...), path, errors.New("unknown field"))
}

func (l *loader) document(d *document) error {
	at := []string{"metadata", "name"}
	if l.name == "" {
		return l.fail(at, "%q: write a name of lower case letters, digits, - and .", d.Metadata.Name)
	}
	if place, there := l.names[l.name]; there {
		return l.fail(at, "%q is the name of the customization at %s already", l.name, place)
	}
	l.names[l.name] = fmt.Sprintf("%s:%d", l.file, l.places.Value(at...).Line)
	operations, err := l.operations(d.Spec)
	if err != nil {
		return err
	}
	return l.targets(d.Spec["targets"], operations)
}

func (l *loader) targets(raw json.RawMessage, operations map[interpreter.Operation]*operation) error {
	path := []string{"spec", "targets"}
	const want = "a list of objects with apiVersion and kind"
	var targets []target
	if len(raw) > 0 {
		unknown, err := kjson.UnmarshalStrict(raw, &targets)
		if err != nil {
			return l.mistypedAt(path, want, err)
		}
		var field kjson.FieldError
		if len(unknown) > 0 && errors.As(unknown[0], &field) {
			at := append(path, pathOf(field.FieldPath())...)
			return l.failAt(l.places.Key(at...), at, errors.New("unknown field: write apiVersion: GROUP/VERSION and kind"))
		}
	}
	if len(targets) == 0 {
		return l.fail(path, "is required: write "+want)
	}
	for i, t := range targets {
		at := append(slices.Clone(path), strconv.Itoa(i))
		gvk, field, err := t.parse()
		if err != nil {
			return l.fail(append(at, field), "%w", err)
		}
		if !l.table.add(&entry{gvk, operations}) {
			return l.fail(at, "%s of %s is a target of customization %s already", t.Kind, t.APIVersion, l.owners[gvk])
		}
		l.owners[gvk] = l.name + " at " + l.names[l.name]
		if len(l.owners) > mostTargets {
			return l.fail(at, "there are more than %d targets", mostTargets)
		}
	}
	return nil
}

// operations compiles the expressions of a customization.
func (l *loader) operations(spec map[string]json.RawMessage) (map[interpreter.Operation]*operation, error) {
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if name != "targets" && !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			path := []string{"spec", name}
			err := fmt.Errorf("unknown field: write targets, %s", fieldNames())
			return nil, l.failAt(l.places.Key(path...), path, err)
		}
	}
	out := map[interpreter.Operation]*operation{}
	for _, f := range fields {
		raw, ok := spec[f.name]
		if !ok {
			continue
		}
		e, err := l.expression(f, raw)
		if err != nil {
			return nil, err
		}
		if out[f.operation] == nil {
			out[f.operation] = &operation{name: f.operation}
		}
		out[f.operation].expressions = append(out[f.operation].expressions, e)
	}
	if spec["requirements"] != nil && spec["replicas"] == nil {
		return nil, l.fail([]string{"spec", "requirements"}, "needs spec.replicas")
	}
	if len(out) == 0 {
		return nil, l.fail([]string{"spec"}, "has no expression: write %s", fieldNames())
	}
	return out, nil
}

// expression compiles the expression of a field.
func (l *loader) expression(f field, raw json.RawMessage) (*expression, error) {
	path := []string{"spec", f.name}
	e := &expression{field: f, file: l.file, name: l.name, place: l.places.Text(path...)}
	var text string
	switch raw[0] {
	case '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, l.fail(path, "%w", err)
		}
	case '{', '[', 'n':
		return nil, l.fail(path, "must be a string with an expression: put it in quotes")
	default: // a number or a boolean is an expression, too
		text = string(raw)
	}
	program, nodes, err := l.environments[f.variables].Compile(text)
	if l.nodes += nodes; l.nodes > mostNodes {
		return nil, l.fail(path, "all expressions together have more than %d parts", mostNodes)
	}
	if err != nil {
		return nil, e.failed(err)
	}
	if !f.result.allows(program.Type) {
		return nil, e.failed(f.result.mistake(program.Type))
	}
	e.program = program
	return e, nil
}
