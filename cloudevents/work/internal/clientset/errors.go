// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// contextError is a Timeout that wraps the error of the caller's context.
type contextError struct {
	*apierrors.StatusError
	cause error
}

// Timeout returns the error of a call whose context ended with cause before the call did.
func Timeout(message string, retryAfterSeconds int, cause error) error {
	return &contextError{apierrors.NewTimeoutError(message, retryAfterSeconds), cause}
}

// Unwrap lets errors.Is find the context's error, and errors.As the StatusError.
func (e *contextError) Unwrap() []error { return []error{e.StatusError, e.cause} }
