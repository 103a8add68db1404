// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	stdjson "encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// CheckFields returns an error for the first object of a built-in kind with a field of a wrong
// type. If strict is set, an unknown field is an error, too. Do not set it for a real cluster,
// which may be newer than these types.
func CheckFields(files []File, strict bool) error {
	for _, f := range files {
		for _, o := range f.Objects {
			typed := typeOf(o.GroupVersionKind())
			if typed == nil {
				continue
			}
			unknown, err := decodeInto(o.Object, typed)
			if err == nil && strict && len(unknown) > 0 {
				err = unknown[0]
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", o.Where, o, err)
			}
		}
	}
	return nil
}

// typeOf returns an empty object of a built-in kind, or nil if it has no known type.
func typeOf(gvk schema.GroupVersionKind) any {
	if gvk == kinds.CRD {
		return &apiextensionsv1.CustomResourceDefinition{}
	}
	if _, ok := kinds.BuiltIn(gvk); !ok {
		return nil
	}
	typed, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil
	}
	return typed
}

// decodeInto decodes into a pointer to a type. An error names the field. unknown are errors for the
// fields that the type does not have.
func decodeInto(content, typed any) (unknown []error, err error) {
	raw, err := stdjson.Marshal(content)
	if err != nil {
		return nil, err
	}
	unknown, err = json.UnmarshalStrict(raw, typed)
	if mistyped := (*stdjson.UnmarshalTypeError)(nil); errors.As(err, &mistyped) && mistyped.Field != "" {
		return nil, fmt.Errorf("field %q: %s where %s is expected", mistyped.Field, mistyped.Value, mistyped.Type)
	}
	return unknown, err
}
