// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/internal/fieldset"
)

// CheckIgnoreFields returns an [ErrInvalidInput] for the first JSON pointer that
// [ObjectOptions].IgnoreFields and IgnoreChangedFields do not accept for a manifest. With a nil
// manifest it checks only the pointers themselves.
func CheckIgnoreFields(manifest *unstructured.Unstructured, pointers ...string) error {
	for _, pointer := range pointers {
		if err := fieldset.CheckPointer(manifest, pointer); err != nil {
			return fmt.Errorf("%w: %.1000q: %w", ErrInvalidInput, pointer, err)
		}
	}
	return nil
}

// ignoredOf returns the ignored fields of a manifest, or nil if no field is ignored.
func ignoredOf(manifest *unstructured.Unstructured, options ObjectOptions) (*fieldset.Ignored, error) {
	if len(options.IgnoreFields) == 0 && len(options.IgnoreChangedFields) == 0 {
		return nil, nil
	}
	err := CheckIgnoreFields(manifest, slices.Concat(options.IgnoreFields, options.IgnoreChangedFields)...)
	if err != nil {
		return nil, err
	}
	return fieldset.Ignore(manifest, options.IgnoreFields, options.IgnoreChangedFields)
}
