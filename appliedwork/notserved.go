// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsTypeNotServed reports whether an error says that the API server does not serve the type, as against that an object of
// it does not exist: both are 404. It is true for a [*TypeNotServedError], for what RESTMappers return, and for the 404 of a
// path that the server does not know, which names no object. While a CRD is being deleted or an API server starts, objects
// that exist give this error.
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
		return true // not from a registry: those name what they did not find
	}
	// client-go makes this of an answer that is no Status: "404 page not found".
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	// A registry always names the object.
	return details.Name == ""
}
