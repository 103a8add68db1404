// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// What goes wrong without details, for errors.Is.
var (
	// ErrNotInterpreted: an [Interpreter] has no answer for this kind of object and this operation, so another one may be
	// asked.
	ErrNotInterpreted = errors.New("nobody interprets this")
	// ErrServerStarted: a [Server] is started, so nothing can be registered and it cannot be started again.
	ErrServerStarted = errors.New("the server was started already")
)

// RequestError says what is wrong with a request.
type RequestError struct {
	// Code is the HTTP status that it is answered with.
	Code int
	// UID is that of the request, where it could be read.
	UID types.UID
	// Field is the part of the request that is wrong, empty where it is the request as a whole.
	Field string
	// Problem says what is wrong, and what to do.
	Problem string
	// Err is the cause, where there is one.
	Err error
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

// AnswerProblem tells apart what is wrong with an answer.
type AnswerProblem string

// The values of [AnswerProblem].
const (
	// NoResponse: the answer has no response.
	NoResponse AnswerProblem = "NoResponse"
	// WrongUID: the answer is to another request.
	WrongUID AnswerProblem = "WrongUID"
	// MissingField: the answer lacks what the operation asks for.
	MissingField AnswerProblem = "MissingField"
	// InvalidField: what the answer has cannot be: a negative number, the same thing twice.
	InvalidField AnswerProblem = "InvalidField"
	// InvalidPatch: the answer's patch has no type, or another one, or cannot be applied.
	InvalidPatch AnswerProblem = "InvalidPatch"
	// IdentityChanged: the answer's patch makes another object of the object.
	IdentityChanged AnswerProblem = "IdentityChanged"
	// NoStatus: the answer says that the request failed, and not why.
	NoStatus AnswerProblem = "NoStatus"
	// Malformed: the answer is not a review of the protocol.
	Malformed AnswerProblem = "Malformed"
	// TooLarge: the answer, or the object that its patch makes, is over the limit.
	TooLarge AnswerProblem = "TooLarge"
)

// AnswerError says what is wrong with an answer.
type AnswerError struct {
	Problem AnswerProblem
	// Field is the part of the answer that is wrong.
	Field string
	// Detail says what is wrong with it.
	Detail string
	// Err is the cause, where there is one.
	Err error
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

// RefusedError is a well-formed answer that says the request failed.
type RefusedError struct {
	// Code is like an HTTP status.
	Code int32
	// Message is the webhook's.
	Message string
}

// Error returns code and message.
func (e *RefusedError) Error() string { return fmt.Sprintf("refused (%d): %s", e.Code, e.Message) }
