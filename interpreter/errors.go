// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/internal/uninterpreted"
)

// Errors without details, for errors.Is.
var (
	// ErrNotInterpreted: an [Interpreter] has no answer for the kind of the object and the operation.
	// A chain calls its next interpreter. It is also kube.ErrNotInterpreted of package rsync/connector/kube.
	ErrNotInterpreted = uninterpreted.Err
	// ErrServerStarted: a [Server] is started, so nothing can be registered and it cannot be started again.
	ErrServerStarted = errors.New("the server has already been started")
)

// RequestError describes an invalid request.
type RequestError struct {
	Code    int       // the HTTP status of the answer
	UID     types.UID // of the request, if it could be read
	Field   string    // the invalid part, or empty for the request as a whole
	Problem string    // the mistake, and what to do
	Err     error     // the cause, or nil
}

// Error returns field, problem and cause.
func (e *RequestError) Error() string {
	s := e.Problem
	if e.Field != "" {
		s = e.Field + " " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

func notImplemented(operation Operation, who string) *RequestError {
	return &RequestError{Code: http.StatusNotImplemented, Field: "request.operation",
		Problem: fmt.Sprintf("%s is not implemented by %s", operation, who)}
}

// Problem is the kind of mistake in an answer.
type Problem string

// The values of [Problem].
const (
	// ProblemNoResponse: the answer has no response.
	ProblemNoResponse Problem = "NoResponse"
	// ProblemWrongUID: the answer is to another request.
	ProblemWrongUID Problem = "WrongUID"
	// ProblemMissingField: the answer lacks a field that the operation requires.
	ProblemMissingField Problem = "MissingField"
	// ProblemInvalidField: the answer has a negative number, or lists a component or a
	// dependency twice.
	ProblemInvalidField Problem = "InvalidField"
	// ProblemInvalidPatch: the answer's patch has no type, or an unknown one, or cannot be applied.
	ProblemInvalidPatch Problem = "InvalidPatch"
	// ProblemIdentityChanged: the answer's patch changes apiVersion, kind, name, namespace or UID
	// of the object.
	ProblemIdentityChanged Problem = "IdentityChanged"
	// ProblemNoStatus: the request failed, and the answer has no reason.
	ProblemNoStatus Problem = "NoStatus"
	// ProblemMalformed: the answer does not have the JSON format of the protocol.
	ProblemMalformed Problem = "Malformed"
	// ProblemTooLarge: the answer, or the object that its patch makes, is over the limit.
	ProblemTooLarge Problem = "TooLarge"
)

// AnswerError describes an invalid answer.
type AnswerError struct {
	Problem Problem
	Field   string // the invalid part of the answer
	Detail  string // the mistake
	Err     error  // the cause, or nil
}

// Error returns field, detail and cause.
func (e *AnswerError) Error() string {
	s := e.Field + " " + e.Detail
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }

// RefusedError is a valid answer to a request that failed.
type RefusedError struct {
	Code    int32  // like an HTTP status
	Message string // the message of the webhook
}

// Error returns code and message.
func (e *RefusedError) Error() string { return fmt.Sprintf("refused (%d): %s", e.Code, e.Message) }
