// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// The types of both protocols, by the names that handlers use.
type (
	// ReplicaRequirements are the requirements of each replica of an object.
	ReplicaRequirements = v1alpha1.ReplicaRequirements
	// Component is one part of an object with several pod templates.
	Component = v1alpha1.Component
	// DependentObjectReference names an object on which another one depends.
	DependentObjectReference = v1alpha1.DependentObjectReference
	// AggregatedStatusItem is the status of an object on one cluster.
	AggregatedStatusItem = v1alpha1.AggregatedStatusItem
	// Operation is an operation of either protocol, by its name in Interpret.
	Operation = v1alpha1.InterpreterOperation
)

// Request is the request of either protocol to a handler. Its fields are those of the Interpret
// protocol.
type Request struct {
	// Protocol is the protocol of the request. The server answers in the same.
	Protocol Protocol

	v1alpha1.ResourceInterpreterRequest
}

// Decode decodes the object of the request. Field names are case-sensitive, and unknown fields are
// ignored. It returns a [*RequestError] if the object is missing, does not fit the type, or needs
// too much memory. The limit is 64 MiB, or 8 times the text of the object if that is more.
func (r *Request) Decode(object any) error {
	return decodeObject("request.object", r.Object.Raw, object)
}

// DecodeObserved decodes the object on the cluster, which a Retain request has. Its errors are
// those of Decode.
func (r *Request) DecodeObserved(object any) error {
	if r.ObservedObject == nil {
		return &RequestError{Code: http.StatusBadRequest, Field: "request.observedObject",
			Problem: "is missing: Retain requires the object on the cluster"}
	}
	return decodeObject("request.observedObject", r.ObservedObject.Raw, object)
}

func decodeObject(field string, raw []byte, object any) error {
	if err := checkObject(field, raw); err != nil {
		return err
	}
	if _, ok := object.(*unstructured.Unstructured); ok && kindOf(raw) == "" {
		// The error of Unstructured would contain the object.
		return &RequestError{Code: http.StatusBadRequest, Field: field, Problem: "has no kind"}
	}
	if err := jsontext.Decode(raw, object); err != nil {
		code := http.StatusBadRequest
		var memory *jsontext.MemoryError
		if errors.As(err, &memory) {
			code = http.StatusRequestEntityTooLarge
		}
		return &RequestError{Code: code, Field: field, Problem: fmt.Sprintf("does not fit %T", object), Err: err}
	}
	return nil
}

func checkObject(field string, raw []byte) error {
	if jsontext.KindOf(raw) != jsontext.Object {
		return &RequestError{Code: http.StatusBadRequest, Field: field, Problem: "is missing or not a JSON object"}
	}
	return nil
}

func kindOf(raw []byte) string {
	kind, _ := jsontext.Text(jsontext.Member(raw, "kind"))
	return kind
}

// Response is the answer of a handler. Its fields are those of the Interpret protocol. The server
// sets UID.
type Response struct {
	v1alpha1.ResourceInterpreterResponse
}

// Succeeded returns a successful response, without the fields that the operation requires. The
// reason is a message for users, and may be empty.
func Succeeded(reason string) Response {
	r := Response{v1alpha1.ResourceInterpreterResponse{Successful: true}}
	if reason != "" {
		r.Status = &v1alpha1.RequestStatus{Code: http.StatusOK, Message: reason}
	}
	return r
}

// Denied returns a response that refuses a request, with the code 403.
func Denied(reason string) Response {
	return Errored(http.StatusForbidden, errors.New(reason))
}

// Errored returns the response to a request that failed. The code is like an HTTP status of 400 to
// 599; others become 500. In the Explore protocol it is the HTTP status of the answer.
func Errored(code int32, err error) Response {
	if code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	message := http.StatusText(int(code))
	if err != nil {
		message = err.Error()
	}
	status := &v1alpha1.RequestStatus{Code: code, Message: message}
	return Response{v1alpha1.ResourceInterpreterResponse{Status: status}}
}

// PatchResponse returns a response with the JSON Patch that turns original into current, both JSON
// text. It is for untyped handlers: a [HandlerFor] makes the patch itself, and keeps fields that
// are not in the type.
func PatchResponse(original, current []byte) Response {
	if !jsontext.Valid(original) || !jsontext.Valid(current) {
		return Errored(http.StatusInternalServerError, errors.New("make patch: an object is not JSON"))
	}
	r := Succeeded("")
	// A patch without operations is sent too: callers read an answer without a patch in different ways.
	r.Patch, r.PatchType = jsontext.Patch(original, current), new(v1alpha1.PatchTypeJSONPatch)
	return r
}

// fail returns the response for an error of a handler: a RequestError keeps its code.
func fail(err error) Response {
	code := int32(http.StatusInternalServerError)
	var request *RequestError
	var refused *RefusedError
	switch {
	case errors.As(err, &request):
		code = int32(request.Code)
	case errors.As(err, &refused):
		code = refused.Code
	}
	return Errored(code, err)
}

// Handler answers requests. Handle is called from many goroutines at once. Its context ends when
// the caller disconnects or the time limit is over. A panic is answered with the code 500.
type Handler interface {
	// Handle answers one request.
	Handle(ctx context.Context, r Request) Response
}

// HandlerFunc implements [Handler] with a function.
type HandlerFunc func(ctx context.Context, r Request) Response

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, r Request) Response { return f(ctx, r) }
