// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// HandlerFor is a [Handler] for objects of one Go type: a pointer to a struct, such as
// *appsv1.Deployment, or *unstructured.Unstructured. Each function answers one operation. A request
// for an operation without a function is answered with the code 501. If a function returns an
// error, the code is that of the [*RequestError], or 500 for other errors.
//
// The functions that change an object (Revise, Retain, Aggregate, Prune) change it in place. The
// answer has their changes as a patch of the object in the request. Fields that are not in the Go
// type survive, also in elements of lists: see Unknown fields in the package documentation.
//
// Each call has its own objects. They share no memory with other calls, so handlers may keep them.
type HandlerFor[T metav1.Object] struct {
	// Kinds are the kinds that the handler accepts; others are answered with the code 400. By
	// default, a handler accepts the kind with the name of the Go type, in any group and version.
	// For unstructured objects, the default is all kinds.
	Kinds []schema.GroupVersionKind

	// DropUncertain removes the unknown fields of a list element that may be changed or replaced:
	// see Unknown fields in the package documentation. By default, the request fails with the code
	// 500. Set it for a handler that replaces the elements of lists without a unique key.
	DropUncertain bool

	// Replica returns the number of replicas that an object declares, and the requirements of each
	// replica, or nil.
	Replica func(ctx context.Context, object T) (int32, *ReplicaRequirements, error)
	// Components returns the parts of an object with several pod templates. Their names must
	// differ.
	Components func(ctx context.Context, object T) ([]Component, error)
	// Revise sets the number of replicas.
	Revise func(ctx context.Context, object T, replicas int32) error
	// Retain copies fields from the observed object to the desired one: those that controllers of the
	// cluster have set.
	Retain func(ctx context.Context, desired, observed T) error
	// Aggregate sets the status of the object to a combination of the statuses of the clusters.
	Aggregate func(ctx context.Context, object T, statuses []AggregatedStatusItem) error
	// Dependencies returns the objects that must be sent to each cluster of the object. Duplicates
	// are removed.
	Dependencies func(ctx context.Context, object T) ([]DependentObjectReference, error)
	// Status returns the status of an object, to be encoded as JSON. Nil is an empty status.
	Status func(ctx context.Context, object T) (any, error)
	// Health returns whether an object is healthy.
	Health func(ctx context.Context, object T) (bool, error)
	// Prune removes the parts of the object that must not be sent to a cluster.
	Prune func(ctx context.Context, object T) error
}

// Operations returns the operations that have a function.
func (h HandlerFor[T]) Operations() []Operation {
	var out []Operation
	for _, o := range v1alpha1.InterpreterOperations() {
		if h.has(o) {
			out = append(out, o)
		}
	}
	return out
}

func (h *HandlerFor[T]) has(o Operation) bool {
	switch o {
	case v1alpha1.InterpreterOperationInterpretReplica:
		return h.Replica != nil
	case v1alpha1.InterpreterOperationInterpretComponent:
		return h.Components != nil
	case v1alpha1.InterpreterOperationReviseReplica:
		return h.Revise != nil
	case v1alpha1.InterpreterOperationRetain:
		return h.Retain != nil
	case v1alpha1.InterpreterOperationAggregateStatus:
		return h.Aggregate != nil
	case v1alpha1.InterpreterOperationInterpretDependency:
		return h.Dependencies != nil
	case v1alpha1.InterpreterOperationInterpretStatus:
		return h.Status != nil
	case v1alpha1.InterpreterOperationInterpretHealth:
		return h.Health != nil
	case v1alpha1.InterpreterOperationPrune:
		return h.Prune != nil
	}
	return false
}

func (HandlerFor[T]) valid() error {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer {
		return fmt.Errorf("invalid HandlerFor[%s]: the type must be a pointer to a struct", t)
	}
	return nil
}

// Handle implements [Handler].
func (h HandlerFor[T]) Handle(ctx context.Context, r Request) Response {
	if err := h.valid(); err != nil {
		return fail(err)
	}
	if !h.has(r.Operation) {
		return fail(notImplemented(r.Operation, fmt.Sprintf("the handler for %s", r.Kind.Kind)))
	}
	if err := h.checkKind(r.Kind, "request.object", r.Object.Raw); err != nil {
		return fail(err)
	}
	object := newObject[T]()
	if err := r.Decode(object); err != nil {
		return fail(err)
	}
	response, err := h.answer(ctx, &r, object)
	if err != nil {
		return fail(err)
	}
	return response
}

// newObject returns an empty object. T is a pointer.
func newObject[T metav1.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// checkKind compares the kind of the request with those of the handler and of the object.
func (h *HandlerFor[T]) checkKind(kind metav1.GroupVersionKind, field string, raw []byte) error {
	wrong := func(problem string, args ...any) error {
		return &RequestError{Code: http.StatusBadRequest, Field: field, Problem: fmt.Sprintf(problem, args...)}
	}
	if err := checkObject(field, raw); err != nil {
		return err
	}
	t := reflect.TypeFor[T]()
	gvk := schema.GroupVersionKind(kind)
	switch {
	case len(h.Kinds) > 0:
		if !slices.Contains(h.Kinds, gvk) {
			return wrong("is a %s: the handler accepts %v", describe(gvk), h.Kinds)
		}
	case t == reflect.TypeFor[*unstructured.Unstructured]():
	case t.Elem().Name() != gvk.Kind:
		return wrong("is a %s: the handler accepts the kind %s: set HandlerFor.Kinds for others", describe(gvk),
			t.Elem().Name())
	}
	apiVersion, _ := jsontext.Text(jsontext.Member(raw, "apiVersion"))
	ownKind, _ := jsontext.Text(jsontext.Member(raw, "kind"))
	if ownKind != "" && (ownKind != gvk.Kind || apiVersion != gvk.GroupVersion().String()) {
		return wrong("is a %s %s: expected %s as in the request", apiVersion, ownKind, describe(gvk))
	}
	return nil
}

func describe(gvk schema.GroupVersionKind) string {
	return gvk.GroupVersion().String() + " " + gvk.Kind
}

func (h *HandlerFor[T]) answer(ctx context.Context, r *Request, object T) (Response, error) {
	response := Succeeded("")
	switch r.Operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		replicas, requirements, err := h.Replica(ctx, object)
		response.Replicas, response.ReplicaRequirements = &replicas, requirements
		return response, err
	case v1alpha1.InterpreterOperationInterpretComponent:
		var err error
		response.Components, err = h.Components(ctx, object)
		return response, err
	case v1alpha1.InterpreterOperationInterpretDependency:
		dependencies, err := h.Dependencies(ctx, object)
		response.Dependencies = unique(dependencies)
		return response, err
	case v1alpha1.InterpreterOperationInterpretStatus:
		status, err := h.Status(ctx, object)
		if err != nil {
			return response, err
		}
		response.RawStatus, err = encodeStatus(status)
		return response, err
	case v1alpha1.InterpreterOperationInterpretHealth:
		healthy, err := h.Health(ctx, object)
		response.Healthy = &healthy
		return response, err
	}
	return h.change(ctx, r, object)
}

func unique(dependencies []DependentObjectReference) []DependentObjectReference {
	seen := make(map[dependencyKey]bool, len(dependencies))
	out := make([]DependentObjectReference, 0, len(dependencies))
	for i := range dependencies {
		if key := keyOf(&dependencies[i]); !seen[key] {
			seen[key] = true
			out = append(out, dependencies[i])
		}
	}
	return out
}

func encodeStatus(status any) (*runtime.RawExtension, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	if string(raw) == "null" { // callers treat null as a missing answer
		raw = []byte("{}")
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

func (h *HandlerFor[T]) change(ctx context.Context, r *Request, object T) (Response, error) {
	f, err := h.changer(r)
	if err != nil {
		return Response{}, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return Response{}, fmt.Errorf("encode object: %w", err)
	}
	name, namespace, uid := object.GetName(), object.GetNamespace(), object.GetUID()
	if err := f(ctx, object); err != nil {
		return Response{}, err
	}
	sameUID := object.GetUID() == uid || object.GetUID() == "" && r.Operation == v1alpha1.InterpreterOperationPrune
	if object.GetName() != name || object.GetNamespace() != namespace || !sameUID {
		return Response{}, errors.New("the handler has changed name, namespace or UID of the object")
	}
	after, err := json.Marshal(object)
	if err != nil {
		return Response{}, fmt.Errorf("encode changed object: %w", err)
	}
	merged, err := jsontext.Merge(r.Object.Raw, before, after, reflect.TypeFor[T](), h.DropUncertain)
	if err != nil {
		return Response{}, fmt.Errorf("merge the change into the object: %w: "+
			"give the elements a unique key, or set HandlerFor.DropUncertain", err)
	}
	for _, field := range []string{"apiVersion", "kind"} {
		was, _ := jsontext.Text(jsontext.Member(r.Object.Raw, field))
		if is, _ := jsontext.Text(jsontext.Member(merged, field)); is != was {
			return Response{}, fmt.Errorf("the handler has changed %s of the object", field)
		}
	}
	return PatchResponse(r.Object.Raw, merged), nil
}

// changer checks the inputs of a request, and returns the function that changes the object.
func (h *HandlerFor[T]) changer(r *Request) (func(context.Context, T) error, error) {
	switch r.Operation {
	case v1alpha1.InterpreterOperationReviseReplica:
		if r.DesiredReplicas == nil || *r.DesiredReplicas < 0 {
			return nil, &RequestError{Code: http.StatusBadRequest, Field: "request.replicas", Problem: "is missing or negative"}
		}
		return func(ctx context.Context, object T) error { return h.Revise(ctx, object, *r.DesiredReplicas) }, nil
	case v1alpha1.InterpreterOperationRetain:
		if r.ObservedObject != nil {
			if err := h.checkKind(r.Kind, "request.observedObject", r.ObservedObject.Raw); err != nil {
				return nil, err
			}
		}
		observed := newObject[T]()
		if err := r.DecodeObserved(observed); err != nil {
			return nil, err
		}
		return func(ctx context.Context, desired T) error { return h.Retain(ctx, desired, observed) }, nil
	case v1alpha1.InterpreterOperationAggregateStatus:
		return func(ctx context.Context, object T) error { return h.Aggregate(ctx, object, r.AggregatedStatus) }, nil
	}
	return h.Prune, nil
}
