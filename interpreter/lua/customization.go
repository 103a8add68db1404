// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// The type of Karmada's customizations.
const (
	apiVersion = "config.karmada.io/v1alpha1"
	kind       = "ResourceInterpreterCustomization"
)

// customization is Karmada's ResourceInterpreterCustomization.
type customization struct {
	file              string
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Target struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		} `json:"target"`
		Customizations map[string]json.RawMessage `json:"customizations"`
	} `json:"spec"`

	scripts map[string]string // by the fields of customizations
}

// list is a List or a ResourceInterpreterCustomizationList.
type list struct {
	Kind  string            `json:"kind"`
	Items []json.RawMessage `json:"items"`
}

// reader reads the files of one call of Set.
type reader struct {
	file string
	line int             // of the document
	used map[string]bool // names
	all  []*customization
}

func read(files []File) ([]*customization, error) {
	r := &reader{used: map[string]bool{}}
	for i, file := range files {
		r.file = cmp.Or(file.Name, fmt.Sprintf("file %d", i+1))
		for document, err := range yamldoc.Split(file.Text) {
			r.line = document.Line
			if err == nil {
				err = r.document(document)
			} else {
				err = r.fail("", "", err)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return r.all, nil
}

// fail returns an error in the document or, if the field is not empty, in a customization.
func (r *reader) fail(name, field string, err error) *Error {
	e := &Error{File: r.file, Name: name, Field: field, Err: err}
	if field == "" {
		e.Line = r.line
	}
	return e
}

// document reads a customization, or a list of them.
func (r *reader) document(text yamldoc.Document) error {
	raw, err := text.StrictJSON()
	if err != nil {
		r.line, err = text.Problem(err)
		return r.fail("", "", err)
	}
	var l list
	if err := json.Unmarshal(raw, &l); err == nil && (l.Kind == "List" || l.Kind == kind+"List") {
		for i, item := range l.Items {
			if err := r.one(item); err != nil {
				err.Field = strings.TrimSuffix(fmt.Sprintf("items[%d].%s", i, err.Field), ".")
				err.Line = 0
				return err
			}
		}
		return nil
	}
	if err := r.one(raw); err != nil {
		return err
	}
	return nil
}

func (r *reader) one(raw []byte) *Error {
	var typed metav1.PartialObjectMetadata
	_ = json.Unmarshal(raw, &typed) // errors are returned below
	switch {
	case typed.Kind == "InterpreterCustomization":
		return r.fail(typed.Name, "kind", errors.New(
			"InterpreterCustomization has expressions in CEL: load it with package interpreter/customization"))
	case typed.Kind != "" && typed.Kind != kind:
		return r.fail(typed.Name, "kind", fmt.Errorf("%q: write %s", typed.Kind, kind))
	}
	c := &customization{file: r.file}
	strict, err := kjson.UnmarshalStrict(raw, c)
	switch {
	case err != nil:
		return r.mistyped(typed.Name, "", err)
	case len(strict) > 0:
		return r.unknown(c.Name, "", strict[0])
	}
	if field, err := c.check(); err != nil {
		return r.fail(c.Name, field, err)
	}
	if err := r.rules(c); err != nil {
		return err
	}
	if r.used[c.Name] {
		return r.fail(c.Name, "metadata.name", errors.New("another customization has the same name"))
	}
	r.used[c.Name] = true
	r.all = append(r.all, c)
	return nil
}

// rules reads the scripts of a customization.
func (r *reader) rules(c *customization) *Error {
	var fields []string
	for _, o := range operations {
		fields = append(fields, o.field)
	}
	c.scripts = map[string]string{}
	const path = "spec.customizations"
	for _, field := range slices.Sorted(maps.Keys(c.Spec.Customizations)) {
		at := path + "." + field
		if !slices.Contains(fields, field) {
			return r.fail(c.Name, at, fmt.Errorf("unknown field: write %s", strings.Join(fields, ", ")))
		}
		var rule *struct {
			LuaScript *string `json:"luaScript"`
		}
		strict, err := kjson.UnmarshalStrict(c.Spec.Customizations[field], &rule)
		switch {
		case err != nil:
			return r.mistyped(c.Name, at+".", err)
		case len(strict) > 0:
			return r.unknown(c.Name, at+".", strict[0])
		case rule == nil: // null
		case rule.LuaScript == nil:
			return r.fail(c.Name, at+".luaScript", errors.New("the script is missing"))
		case *rule.LuaScript != "": // an empty script is ignored, as in Karmada
			c.scripts[field] = *rule.LuaScript
		}
	}
	if len(c.scripts) == 0 {
		return r.fail(c.Name, path, fmt.Errorf("no script: write luaScript in %s", strings.Join(fields, ", ")))
	}
	return nil
}

// mistyped returns an error for a value of a wrong type. around is the path of the outer field.
func (r *reader) mistyped(name, around string, err error) *Error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return r.fail(name, "", err)
	}
	want := "another value"
	switch kind.Type.Kind() {
	case reflect.String:
		want = "a text"
	case reflect.Struct, reflect.Map:
		want = "an object"
	case reflect.Slice:
		want = "a list"
	}
	field := strings.TrimSuffix(around+kind.Field, ".")
	return r.fail(name, field, fmt.Errorf("got a JSON %s, expected %s", kind.Value, want))
}

// unknown returns an error for a field that the type does not have.
func (r *reader) unknown(name, around string, err error) *Error {
	var field kjson.FieldError
	if !errors.As(err, &field) {
		return r.fail(name, "", err)
	}
	problem := "unknown field"
	switch {
	case around != "":
		problem += ": write luaScript"
	case field.FieldPath() == "spec.targets":
		problem += ": write spec.target, an object with apiVersion and kind"
	}
	return r.fail(name, around+field.FieldPath(), errors.New(problem))
}

// check returns the first invalid field and its error.
func (c *customization) check() (field string, err error) {
	const target = "spec.target."
	switch gv, err := schema.ParseGroupVersion(c.Spec.Target.APIVersion); {
	case c.APIVersion != apiVersion:
		return "apiVersion", fmt.Errorf("%q: write %s", c.APIVersion, apiVersion)
	case c.Kind != kind:
		return "kind", fmt.Errorf("%q: write %s", c.Kind, kind)
	case c.Name == "":
		return "metadata.name", errors.New("the name is missing")
	case err != nil:
		return target + "apiVersion", err
	case gv.Version == "":
		return target + "apiVersion", errors.New("the version is missing")
	case c.Spec.Target.Kind == "":
		return target + "kind", errors.New("the kind is missing")
	}
	return "", nil
}

func (c *customization) target() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(c.Spec.Target.APIVersion, c.Spec.Target.Kind)
}
