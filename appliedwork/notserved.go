// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsTypeNotServed reports whether an error means that the API server does not serve a type. It
// returns false for an object that does not exist, although the status of both errors is 404. It
// returns true for a [*TypeNotServedError], for the no-match errors of RESTMappers, and for a 404
// without the name of an object. An existing object can cause this error while its CRD is being
// deleted or an API server starts.
func IsTypeNotServed(err error) bool {
	var notServed *TypeNotServedError
	if errors.As(err, &notServed) || meta.IsNoMatchError(err) {
		return true
	}
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	if details == nil {
		return true // not from a registry, which always names the object
	}
	// client-go reports this cause for a response that is no Status, such as "404 page not found".
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	// A registry always names the object.
	return details.Name == ""
}
