// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The options of a write are checked by the API server's functions. They allocate even if there is
// nothing to check, so they are not called in the usual case, without options.

func checkCreateOptions(o *metav1.CreateOptions) error {
	if o.FieldManager == "" && len(o.DryRun) == 0 && o.FieldValidation == "" {
		return nil
	}
	return invalidOptions("CreateOptions", validation.ValidateCreateOptions(o))
}

func checkUpdateOptions(o *metav1.UpdateOptions) error {
	if o.FieldManager == "" && len(o.DryRun) == 0 && o.FieldValidation == "" {
		return nil
	}
	return invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(o))
}

func checkPatchOptions(o *metav1.PatchOptions, pt types.PatchType) error {
	if o.FieldManager == "" && len(o.DryRun) == 0 && o.FieldValidation == "" && o.Force == nil &&
		pt != types.ApplyPatchType {
		return nil
	}
	return invalidOptions("PatchOptions", validation.ValidatePatchOptions(o, pt))
}

func checkDeleteOptions(o *metav1.DeleteOptions) error {
	return invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(o))
}

func invalidOptions(name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: name}, "", errs)
}
