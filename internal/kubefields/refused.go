// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubefields has functions about single fields of Kubernetes objects.
package kubefields

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refused returns the fields because of which the API server refused an object as invalid. Each
// field is returned once, in the order of the answer. Refused returns nil if the error has another
// reason too. A cause without a field is from an admission policy or a webhook. A missing,
// duplicate or unknown value is unrelated to updates.
//
// If an update is refused with such fields, and the API server would create the object, the update
// changes immutable fields. The texts of causes do not show that: "field is immutable", "may not
// change once set" and "cannot change roleRef" mean the same.
func Refused(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "" || cause.Type != metav1.CauseTypeFieldValueInvalid && cause.Type != metav1.CauseTypeForbidden {
			return nil
		}
		if !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}
