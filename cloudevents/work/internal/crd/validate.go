// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Validate returns what the API server has against the value of one of the object's members, spec or status:
// the schema's constraints, embedded resources, keys of lists that occur twice, and, if nothing worse was
// found, the CEL rules. The order of the errors is that of their paths.
func Validate(member string, value any) field.ErrorList {
	root, err := Schema()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	s, path := property(root, member), field.NewPath(member)
	if member == Status { // a subresource has a validator of its own, whose texts begin there
		return withStructure(path, value, s, constraints(path, value, s))
	}
	return withStructure(path, value, s, constraints(nil, map[string]any{member: value}, root))
}

// withStructure adds to the errors what the API server finds where constraints do not look.
func withStructure(path *field.Path, value any, s *spec.Schema, errs field.ErrorList) field.ErrorList {
	visit(path, value, s, func(path *field.Path, x any, s *spec.Schema) {
		if obj, ok := x.(map[string]any); ok && extension[bool](s, embedded) {
			errs = append(errs, embeddedResource(path, obj)...)
		}
		if list, ok := x.([]any); ok && extension[string](s, listType) == "map" {
			errs = append(errs, duplicates(path, list, s)...)
		}
	})
	if !slices.ContainsFunc(errs, blocksRules) {
		visit(path, value, s, func(path *field.Path, x any, s *spec.Schema) {
			errs = append(errs, rules(path, x, s)...)
		})
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return MarkBlocked(errs)
}

// MarkBlocked adds, where there is an error after which CEL rules are not checked, the API server's remark that
// they were not.
func MarkBlocked(errs field.ErrorList) field.ErrorList {
	marked := slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Detail == blockedRemark })
	if marked || !slices.ContainsFunc(errs, blocksRules) {
		return errs
	}
	return append(errs, field.Invalid(nil, nil, blockedRemark))
}

const blockedRemark = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// constraints runs the API server's validator and turns its errors into field errors as the API server does.
func constraints(path *field.Path, value any, s *spec.Schema) field.ErrorList {
	var errs field.ErrorList
	for _, err := range validate.NewSchemaValidator(s, nil, "", strfmt.Default).Validate(value).Errors {
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
				data, _ := json.Marshal(one) // it came from JSON
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

// blocksRules reports whether the API server runs no CEL rules beside this error.
func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

// visit calls f for each value that the schema describes.
func visit(path *field.Path, x any, s *spec.Schema, f func(*field.Path, any, *spec.Schema)) {
	if s == nil {
		return
	}
	f(path, x, s)
	switch x := x.(type) {
	case map[string]any:
		for name, value := range x {
			visit(path.Child(name), value, property(s, name), f)
		}
	case []any:
		for i, value := range x {
			visit(path.Index(i), value, items(s), f)
		}
	}
}
