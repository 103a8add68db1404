// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Interpreter answers queries about objects. Packages customization, customization/kinds, lua, native
// and caller have implementations, and [FromHandler] wraps a handler in the same process.
//
// Interpret may be called from any goroutine. It never changes the values of the query. Its error is
// [ErrNotInterpreted] if it has no answer for the kind of the object and the operation.
type Interpreter interface {
	Interpret(ctx context.Context, q Query) (Answer, error)
}

// Query is a question about an object.
type Query struct {
	Operation Operation
	Object    *unstructured.Unstructured // required, with apiVersion and kind
	Observed  *unstructured.Unstructured // the object on the cluster, required for Retain
	Replicas  int32                      // to set, for ReviseReplica
	Statuses  []AggregatedStatusItem     // to aggregate, for AggregateStatus
}

// Answer is the result of [Interpreter].Interpret. The operation decides which fields are set.
type Answer struct {
	Replicas     int32                      // InterpretReplica
	Requirements *ReplicaRequirements       // InterpretReplica, may be nil
	Components   []Component                // InterpretComponent
	Object       *unstructured.Unstructured // ReviseReplica, Retain, AggregateStatus and Prune: a new object
	Dependencies []DependentObjectReference // InterpretDependency
	Status       *runtime.RawExtension      // InterpretStatus
	Healthy      bool                       // InterpretHealth
}

// Request returns the query as a request. The error is a [*RequestError].
func (q *Query) Request(p Protocol, uid types.UID) (*Request, error) {
	bad := func(field, problem string, err error) (*Request, error) {
		return nil, &RequestError{Code: http.StatusBadRequest, UID: uid, Field: field, Problem: problem, Err: err}
	}
	switch {
	case !q.Operation.Known():
		return bad("Query.Operation", fmt.Sprintf("is %q: unknown operation", q.Operation), nil)
	case q.Object == nil || q.Object.GetKind() == "" || q.Object.GetAPIVersion() == "":
		return bad("object", "is nil, or has no kind or apiVersion", nil)
	case q.Operation == v1alpha1.InterpreterOperationRetain && q.Observed == nil:
		return bad("Query.Observed", "is nil: Retain requires the object on the cluster", nil)
	case q.Operation == v1alpha1.InterpreterOperationReviseReplica && q.Replicas < 0:
		return bad("Query.Replicas", "is negative", nil)
	}
	r := &Request{Protocol: p}
	r.UID, r.Operation = uid, q.Operation
	r.Kind = metav1.GroupVersionKind(q.Object.GroupVersionKind())
	r.Name, r.Namespace = q.Object.GetName(), q.Object.GetNamespace()
	var err error
	if r.Object.Raw, err = json.Marshal(q.Object); err != nil {
		return bad("object", "cannot be encoded", err)
	}
	switch q.Operation {
	case v1alpha1.InterpreterOperationRetain:
		r.ObservedObject = &runtime.RawExtension{}
		if r.ObservedObject.Raw, err = json.Marshal(q.Observed); err != nil {
			return bad("Query.Observed", "cannot be encoded", err)
		}
	case v1alpha1.InterpreterOperationReviseReplica:
		r.DesiredReplicas = &q.Replicas
	case v1alpha1.InterpreterOperationAggregateStatus:
		r.AggregatedStatus = q.Statuses
	}
	return r, nil
}

// Answer checks a response to the query, and applies its patch to a copy of the object. The error is
// an [*AnswerError] for an invalid response, and a [*RefusedError] for a failed request.
func (q *Query) Answer(p Protocol, r *Response) (Answer, error) {
	if err := r.check(p, q.Operation); err != nil {
		return Answer{}, err
	}
	if !r.Successful {
		return Answer{}, &RefusedError{Code: r.Status.Code, Message: r.Status.Message}
	}
	var a Answer
	switch q.Operation {
	case v1alpha1.InterpreterOperationInterpretReplica:
		a.Replicas, a.Requirements = *r.Replicas, r.ReplicaRequirements
	case v1alpha1.InterpreterOperationInterpretComponent:
		a.Components = r.Components
	case v1alpha1.InterpreterOperationInterpretDependency:
		a.Dependencies = r.Dependencies
	case v1alpha1.InterpreterOperationInterpretStatus:
		a.Status = r.RawStatus
	case v1alpha1.InterpreterOperationInterpretHealth:
		a.Healthy = *r.Healthy
	default:
		var err error
		if a.Object, err = apply(q.Operation, q.Object, r.Patch); err != nil {
			return Answer{}, err
		}
	}
	return a, nil
}

// FromHandler returns an [Interpreter] that calls a handler in the same process. A response with
// the code 501 becomes [ErrNotInterpreted].
func FromHandler(h Handler) Ask { return Ask{inProcess{h}} }

type inProcess struct{ handler Handler }

// Interpret implements [Interpreter].
func (i inProcess) Interpret(ctx context.Context, q Query) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	r, err := q.Request(ProtocolInterpret, "in-process")
	if err != nil {
		return Answer{}, err
	}
	response := guard(ctx, i.handler, *r)
	if !response.Successful && response.Status != nil && response.Status.Code == http.StatusNotImplemented {
		return Answer{}, fmt.Errorf("%w: %s", ErrNotInterpreted, response.Status.Message)
	}
	return q.Answer(ProtocolInterpret, &response)
}

// Ask has a method for each operation of an [Interpreter]. Their errors are those of Interpret.
type Ask struct {
	Interpreter
}

// Replicas returns the number of replicas that an object declares, and the requirements of each
// replica, or nil.
func (a Ask) Replicas(ctx context.Context, object *unstructured.Unstructured) (int32, *ReplicaRequirements, error) {
	answer, err := a.Interpret(ctx, Query{Operation: v1alpha1.InterpreterOperationInterpretReplica, Object: object})
	return answer.Replicas, answer.Requirements, err
}

// Components returns the parts of an object with several pod templates.
func (a Ask) Components(ctx context.Context, object *unstructured.Unstructured) ([]Component, error) {
	answer, err := a.Interpret(ctx, Query{Operation: v1alpha1.InterpreterOperationInterpretComponent, Object: object})
	return answer.Components, err
}

// Revise returns the object with another number of replicas.
func (a Ask) Revise(
	ctx context.Context, object *unstructured.Unstructured, replicas int32,
) (*unstructured.Unstructured, error) {
	q := Query{Operation: v1alpha1.InterpreterOperationReviseReplica, Object: object, Replicas: replicas}
	return a.object(ctx, q)
}

// Retain returns the desired object with the fields that controllers of the cluster have set in the
// observed object.
func (a Ask) Retain(
	ctx context.Context, desired, observed *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	return a.object(ctx, Query{Operation: v1alpha1.InterpreterOperationRetain, Object: desired, Observed: observed})
}

// AggregateStatus returns the object with a status that combines the statuses of the clusters.
func (a Ask) AggregateStatus(
	ctx context.Context, object *unstructured.Unstructured, statuses []AggregatedStatusItem,
) (*unstructured.Unstructured, error) {
	q := Query{Operation: v1alpha1.InterpreterOperationAggregateStatus, Object: object, Statuses: statuses}
	return a.object(ctx, q)
}

// Dependencies returns the objects that must be sent to each cluster of the object.
func (a Ask) Dependencies(ctx context.Context, object *unstructured.Unstructured) ([]DependentObjectReference, error) {
	answer, err := a.Interpret(ctx, Query{Operation: v1alpha1.InterpreterOperationInterpretDependency, Object: object})
	return answer.Dependencies, err
}

// Status returns the status of an object.
func (a Ask) Status(ctx context.Context, object *unstructured.Unstructured) (*runtime.RawExtension, error) {
	answer, err := a.Interpret(ctx, Query{Operation: v1alpha1.InterpreterOperationInterpretStatus, Object: object})
	return answer.Status, err
}

// Health returns whether an object is healthy.
func (a Ask) Health(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	answer, err := a.Interpret(ctx, Query{Operation: v1alpha1.InterpreterOperationInterpretHealth, Object: object})
	return answer.Healthy, err
}

// Prune returns the object without the parts that must not be sent to a cluster.
func (a Ask) Prune(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return a.object(ctx, Query{Operation: v1alpha1.InterpreterOperationPrune, Object: object})
}

// object answers the operations that change an object.
func (a Ask) object(ctx context.Context, q Query) (*unstructured.Unstructured, error) {
	answer, err := a.Interpret(ctx, q)
	return answer.Object, err
}
