// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package connector

import (
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// The classes of errors, for errors.Is and for [Error].
var (
	// ErrUnreachable: the cluster does not answer.
	ErrUnreachable = errors.New("the cluster does not answer")
	// ErrRetryable: the cluster answers, and the same call may succeed later.
	ErrRetryable = errors.New("the cluster refused for now")
	// ErrTerminal: the call will never succeed.
	ErrTerminal = errors.New("the cluster refused")
)

// Error is an error with a class and an object.
type Error struct {
	// Class is, or wraps, ErrUnreachable, ErrRetryable or ErrTerminal.
	Class error
	// Object is the object that failed. Its Kind is empty if the error concerns no single object.
	Object appcontext.Object
	// Err is the cause. Its text is in logs and statuses: it must have no content of manifests.
	Err error
}

// Error returns class, object and cause.
func (e *Error) Error() string {
	s := e.Class.Error()
	if e.Object.Kind != "" {
		s += " " + e.Object.String()
	}
	if e.Err != nil {
		s = fmt.Sprintf("%s: %s", s, e.Err)
	}
	return s
}

// Unwrap returns the class and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

// ClassOf returns the class of an error: ErrRetryable if it has no class, and nil for nil.
func ClassOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnreachable):
		return ErrUnreachable
	case errors.Is(err, ErrTerminal):
		return ErrTerminal
	}
	return ErrRetryable
}
