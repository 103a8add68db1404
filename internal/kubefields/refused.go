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

// Refused returns the fields because of which the API server refused an object as invalid, each
// once, in the order of the answer. It returns nil if the error has another reason too: a cause
// without a field is from an admission policy or a webhook, and a missing, duplicate or unknown
// value is unrelated to updates.
//
// If an update is refused with such fields, and the API server would create the object, the update
// changes immutable fields. The texts of causes differ too much to show that.
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
