// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	workv1 "open-cluster-management.io/api/work/v1"
	kjson "sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// celRules are the CRD's x-kubernetes-validations, by their text. A CEL interpreter would be a
// third of the program, for one comparison.
var celRules = map[string]func(self map[string]any) bool{
	`self.type != 'CEL' || self.condition != ""`: func(self map[string]any) bool {
		return self["type"] != string(workv1.CelConditionExpressionsType) || self["condition"] != ""
	},
}

// rules applies the schema's own rules to a value.
func rules(path *field.Path, x any, s *spec.Schema) field.ErrorList {
	self, ok := x.(map[string]any)
	if !ok {
		return nil
	}
	var errs field.ErrorList
	for _, one := range extension[[]any](s, validations) {
		rule, _ := one.(map[string]any)
		text, _ := rule["rule"].(string)
		if holds := celRules[text]; holds != nil && !holds(self) {
			message, _ := rule["message"].(string)
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, message))
		}
	}
	return errs
}

// duplicates finds items of a list with map keys that have the same key.
func duplicates(path *field.Path, list []any, s *spec.Schema) field.ErrorList {
	var errs field.ErrorList
	times := map[string]int{}
	for i, item := range list {
		if _, ok := item.(map[string]any); !ok && item != nil {
			return field.ErrorList{field.Invalid(path.Index(i), item, "must be an object for an array of list-type map")}
		}
	}
	for i, item := range list {
		obj, _ := item.(map[string]any) // null has no key
		key := map[string]any{}
		for _, name := range extension[[]any](s, listMapKeys) {
			if name, ok := name.(string); ok && obj[name] != nil {
				key[name] = obj[name]
			}
		}
		text, err := json.Marshal(key)
		if err != nil {
			return field.ErrorList{field.Invalid(path.Index(i), item, "internal error")}
		}
		// The third and later ones are not reported, as on the API server.
		if times[string(text)]++; times[string(text)] == 2 {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
	}
	return errs
}

// embeddedResource checks apiVersion, kind and metadata of an embedded object.
func embeddedResource(path *field.Path, obj map[string]any) field.ErrorList {
	errs := typeMeta(path.Child("apiVersion"), obj, "apiVersion", func(s string) string {
		if _, err := schema.ParseGroupVersion(s); err != nil {
			return err.Error()
		}
		return ""
	})
	errs = append(errs, typeMeta(path.Child("kind"), obj, "kind", func(s string) string {
		if wrong := utilvalidation.IsDNS1035Label(strings.ToLower(s)); len(wrong) > 0 {
			return "may have mixed case, but should otherwise match: " + strings.Join(wrong, ",")
		}
		return ""
	})...)
	metadata, ok := obj["metadata"]
	if !ok {
		return errs
	}
	typed, err := decodeMetadata(metadata)
	if err != nil {
		return append(errs, field.Invalid(path.Child("metadata"), shown(metadata, err), err.Error()))
	}
	if typed.Name == "" {
		typed.Name = "fakename" // manifests may omit it, objects may not
	}
	namespaced := typed.Namespace != ""
	return append(errs, validation.ValidateObjectMeta(typed, namespaced, pathSegment, path.Child("metadata"))...)
}

// errMetadata is returned for metadata over maxMetadata.
var errMetadata = fmt.Errorf("has more than %d members and elements", maxMetadata)

// shown returns the value of metadata for an error. It omits too large metadata.
func shown(metadata any, err error) any {
	if errors.Is(err, errMetadata) {
		return field.OmitValueType{}
	}
	return metadata
}

func decodeMetadata(metadata any) (*metav1.ObjectMeta, error) {
	data, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	if jsontext.Count(data, maxMetadata) > maxMetadata {
		return nil, errMetadata
	}
	typed := &metav1.ObjectMeta{}
	return typed, kjson.UnmarshalCaseSensitivePreserveInts(data, typed)
}

// Malformed returns the first error in spec or status for which an API server cannot decode the
// object, or nil. This is an embedded object with wrong types of apiVersion, kind or metadata.
func Malformed(member string, data []byte) *field.Error {
	var value any
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &value) != nil {
		return nil
	}
	return unreadable(member, value)
}

func unreadable(member string, value any) *field.Error {
	var first *field.Error
	part := property(Schema(), member)
	visit(field.NewPath(member), value, part, func(path *field.Path, x any, s *spec.Schema) bool {
		if obj, ok := x.(map[string]any); ok && extension[bool](s, embedded) {
			first = malformed(path, obj)
		}
		return first == nil
	})
	return first
}

// malformed returns the first such error of one embedded object, or nil.
func malformed(path *field.Path, obj map[string]any) *field.Error {
	for _, name := range []string{"apiVersion", "kind"} {
		if v, ok := obj[name]; ok {
			if _, ok := v.(string); !ok {
				return field.Invalid(path.Child(name), v, "must be a string")
			}
		}
	}
	if metadata, ok := obj["metadata"]; ok {
		if _, err := decodeMetadata(metadata); err != nil {
			return field.Invalid(path.Child("metadata"), shown(metadata, err), err.Error())
		}
	}
	return nil
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

func typeMeta(path *field.Path, obj map[string]any, name string, wrong func(string) string) field.ErrorList {
	value, ok := obj[name]
	if !ok {
		return field.ErrorList{field.Required(path, "")}
	}
	text, ok := value.(string)
	message := "must be a string"
	switch {
	case ok && text == "":
		message = "must not be empty"
	case ok:
		message = wrong(text)
	}
	if message == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, message)}
}
