// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// MaxErrors is the number of errors after which [Validate] stops.
const MaxErrors = 1000

// Validate returns the API server's errors for spec or status. It checks the schema's constraints,
// embedded resources, duplicate keys of lists and, unless other errors prevent that, the CEL rules.
// The errors are sorted by path. The API server iterates over maps, so its order is random. If there
// are more than [MaxErrors], Validate returns some of them.
func Validate(member string, value any) field.ErrorList {
	root := Schema()
	s, path := property(root, member), field.NewPath(member)
	if member == Status { // a subresource has its own validator, with paths that begin there
		return withStructure(path, value, s, constraints(path, "", value, s))
	}
	return withStructure(path, value, s, constraints(nil, "", map[string]any{member: value}, root))
}

// withStructure adds the API server's errors that constraints does not find.
func withStructure(path *field.Path, value any, s *spec.Schema, errs field.ErrorList) field.ErrorList {
	visit(path, value, s, func(path *field.Path, x any, s *spec.Schema) bool {
		if obj, ok := x.(map[string]any); ok && extension[bool](s, embedded) {
			errs = append(errs, embeddedResource(path, obj)...)
		}
		if list, ok := x.([]any); ok && extension[string](s, listType) == "map" {
			errs = append(errs, duplicates(path, list, s)...)
		}
		return len(errs) <= MaxErrors
	})
	if !slices.ContainsFunc(errs, blocksRules) {
		visit(path, value, s, func(path *field.Path, x any, s *spec.Schema) bool {
			errs = append(errs, rules(path, x, s)...)
			return len(errs) <= MaxErrors
		})
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return MarkBlocked(errs)
}

// MarkBlocked adds the API server's remark that CEL rules were not checked, if an error prevented
// that.
func MarkBlocked(errs field.ErrorList) field.ErrorList {
	marked := slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Detail == blockedRemark })
	if marked || !slices.ContainsFunc(errs, blocksRules) {
		return errs
	}
	return append(errs, field.Invalid(nil, nil, blockedRemark))
}

const blockedRemark = "some validation rules were not checked because the object was invalid; correct the existing " +
	"errors to complete validation"

// constraints runs the API server's validator and converts its errors to field errors as the API
// server does. The validator's time grows with the square of the number of errors, so it checks the
// elements of long lists one at a time. name is the path of the value below path.
func constraints(path *field.Path, name string, value any, s *spec.Schema) field.ErrorList {
	value, lists := withoutLongLists(name, value, s)
	errs := validated(path, name, value, s)
	for _, list := range lists {
		for i, element := range list.elements {
			errs = append(errs, constraints(path, indexed(list.name, i), element, list.schema)...)
			if len(errs) > MaxErrors {
				return errs
			}
		}
	}
	return errs
}

// longList is a list that the validator does not check as a whole.
type longList struct {
	name     string
	elements []any
	schema   *spec.Schema // of an element
}

// maxSeen is the length of the longest list that the validator checks as a whole.
const maxSeen = 32

// withoutLongLists returns a value with empty lists instead of long ones, and the long ones.
func withoutLongLists(name string, value any, s *spec.Schema) (any, []longList) {
	switch x := value.(type) {
	case map[string]any:
		var lists []longList
		out := x
		for key, member := range x {
			p := property(s, key)
			if p == nil {
				continue
			}
			short, more := withoutLongLists(strings.TrimPrefix(name+"."+key, "."), member, p)
			if len(more) == 0 {
				continue
			}
			if len(lists) == 0 {
				out = maps.Clone(x)
			}
			out[key] = short
			lists = append(lists, more...)
		}
		return out, lists
	case []any:
		element := items(s)
		if element == nil {
			return value, nil
		}
		if len(x) > maxSeen {
			return []any{}, []longList{{name, x, element}}
		}
		var lists []longList
		out := x
		for i, member := range x {
			short, more := withoutLongLists(indexed(name, i), member, element)
			if len(more) == 0 {
				continue
			}
			if len(lists) == 0 {
				out = slices.Clone(x)
			}
			out[i] = short
			lists = append(lists, more...)
		}
		return out, lists
	}
	return value, nil
}

func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

func validated(path *field.Path, name string, value any, s *spec.Schema) field.ErrorList {
	var errs field.ErrorList
	for _, err := range validate.NewSchemaValidator(s, nil, name, strfmt.Default).Validate(value).Errors {
		var v *openapierrors.Validation
		if !errors.As(err, &v) {
			errs = append(errs, field.Invalid(path, "", err.Error()))
			continue
		}
		at := path
		if v.Name != "" && v.Name != "." {
			at = path.Child(strings.TrimPrefix(v.Name, "."))
		}
		errs = append(errs, fieldError(at, v))
	}
	return errs
}

func fieldError(at *field.Path, v *openapierrors.Validation) *field.Error {
	value := v.Value
	if value == nil {
		value = ""
	}
	switch v.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.EnumFailCode:
		allowed := make([]string, 0, len(v.Values))
		for _, one := range v.Values {
			s, ok := one.(string)
			if !ok {
				data, _ := json.Marshal(one) // it was decoded from JSON
				s = string(data)
			}
			allowed = append(allowed, s)
		}
		return field.NotSupported(at, v.Value, allowed)
	case openapierrors.TooLongFailCode:
		limit, ok := v.Valid.(int64)
		if !ok {
			limit = -1
		}
		return field.TooLong(at, "", int(limit))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, value, v.Error())
	}
	return field.Invalid(at, value, v.Error())
}

// blocksRules reports whether the API server runs no CEL rules after this error.
func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

// visit calls f for each value that the schema describes, until f returns false.
func visit(path *field.Path, x any, s *spec.Schema, f func(*field.Path, any, *spec.Schema) bool) bool {
	if s == nil {
		return true
	}
	if !f(path, x, s) {
		return false
	}
	switch x := x.(type) {
	case map[string]any:
		for name, value := range x {
			if !visit(path.Child(name), value, property(s, name), f) {
				return false
			}
		}
	case []any:
		element := items(s)
		for i, value := range x {
			if !visit(path.Index(i), value, element, f) {
				return false
			}
		}
	}
	return true
}
