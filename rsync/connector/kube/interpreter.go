// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/uninterpreted"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Interpreter reports whether objects are healthy. The interpreters of the SDK's package
// interpreter implement it: webhooks, customizations, built-in kinds, the kinds of widely used
// projects, and chains of them:
//
//	own, err := customization.New(customization.File{Name: "queues.yaml", Text: text})
//	…
//	options := kube.Options{Interpreter: caller.Chain(own, native.New(), kinds.New())}
//
// Health is called with objects as the API server returns them, Secrets included. It may be called
// from several goroutines, must not change the object, and must return soon after ctx has ended.
// While a call for an object has not returned, there is no further call for the object. Its errors
// are logged, so they must not quote secret values. See [Options].Interpreter.
type Interpreter interface {
	Health(ctx context.Context, object *unstructured.Unstructured) (healthy bool, err error)
}

// ErrNotInterpreted is the error of an [Interpreter] that does not support the kind of the object.
// It is the same error as interpreter.ErrNotInterpreted.
var ErrNotInterpreted = uninterpreted.Err

// mayInterpret reports whether the status of an object describes its current spec.
func mayInterpret(u *unstructured.Unstructured) bool {
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return u.GetDeletionTimestamp() == nil && (err != nil || !found || observed >= u.GetGeneration())
}

// hasRule reports whether this connector, or kstatus, has a rule for the kind, which an interpreter
// does not override: for many interpreters a running Job is healthy.
func hasRule(o appcontext.Object, u *unstructured.Unstructured) bool {
	return counted[u.GroupVersionKind().GroupKind()] || isDefinition(o)
}

// interpreted returns a state after the answer of the interpreter.
func interpreted(s connector.State, u *unstructured.Unstructured, healthy bool, err error) connector.State {
	rule := hasRule(s.Object, u)
	switch {
	case errors.Is(err, ErrNotInterpreted):
	case err != nil:
		s.Failed = s.Failed && rule
		if !s.Failed {
			s.Ready, s.Message = false, "its health is unknown: "+describe(err)
		}
	case !healthy:
		if !s.Failed && (s.Ready || !rule) {
			s.Message = "the interpreter reports that it is not healthy"
		}
		s.Ready = false
	case !rule:
		s.Ready, s.Failed, s.Message = true, false, ""
	}
	return s
}

// errPending is the error of a question without an answer yet.
var errPending = errors.New("the interpreter has not answered yet")

// lateError is the error of a question that took too long.
type lateError struct{ after fmt.Stringer }

func (e lateError) Error() string {
	return fmt.Sprintf("the interpreter did not answer within %s", e.after)
}

// describe returns a text without content of the object.
func describe(err error) string {
	var late lateError
	switch {
	case errors.Is(err, errPending):
		return errPending.Error()
	case errors.As(err, &late):
		return late.Error()
	}
	return "the interpreter failed" + causeType(err)
}
