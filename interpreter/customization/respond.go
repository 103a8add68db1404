// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// operation is an operation with its expressions: two for InterpretReplica, one for the others.
type operation struct {
	name        interpreter.Operation
	expressions []*expression
}

// evaluation is the evaluation of an operation for a request.
type evaluation struct {
	request *interpreter.Request
	object  *unstructured.Unstructured
	steps   bound.Steps
}

// respond answers a request. The error is an [*Error], a [*interpreter.RequestError] or the error
// of the context, or wraps [interpreter.ErrNotInterpreted].
func (o *operation) respond(ctx context.Context, r *interpreter.Request) (interpreter.Response, error) {
	v := &evaluation{request: r, object: &unstructured.Unstructured{}}
	if err := r.Decode(v.object); err != nil {
		return interpreter.Response{}, err
	}
	variables, err := v.variables()
	if err != nil {
		return interpreter.Response{}, err
	}
	response := interpreter.Succeeded("")
	for _, e := range o.expressions {
		result, err := e.evaluate(ctx, &v.steps, variables)
		if err == nil && result == nil {
			if e.field.name == "requirements" {
				continue
			}
			return interpreter.Response{}, fmt.Errorf("%w: the result of spec.%s of customization %s has no value",
				interpreter.ErrNotInterpreted, e.field.name, e.name)
		}
		if err == nil {
			err = v.answer(e.field.name, result, &response)
		}
		if err != nil {
			return interpreter.Response{}, o.failed(ctx, e, v.object, err)
		}
	}
	return response, nil
}

// failed returns the error for a failed expression, or that of the context if the caller no longer
// waits.
func (o *operation) failed(ctx context.Context, e *expression, of *unstructured.Unstructured, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := e.failed(err)
	failed.Operation = o.name
	failed.Object = of.GetKind() + " " + strings.TrimPrefix(of.GetNamespace()+"/"+of.GetName(), "/")
	return failed
}

func (v *evaluation) variables() (map[string]any, error) {
	out := map[string]any{"object": v.object.Object}
	switch v.request.Operation {
	case v1alpha1.InterpreterOperationReviseReplica:
		if v.request.DesiredReplicas == nil || *v.request.DesiredReplicas < 0 {
			return nil, &interpreter.RequestError{Code: http.StatusBadRequest, Field: "request.replicas",
				Problem: "is missing or negative"}
		}
		out["replicas"] = int64(*v.request.DesiredReplicas)
	case v1alpha1.InterpreterOperationRetain:
		var observed unstructured.Unstructured
		if err := v.request.DecodeObserved(&observed); err != nil {
			return nil, err
		}
		out["observed"] = observed.Object
	case v1alpha1.InterpreterOperationAggregateStatus:
		items, statuses, err := v.items()
		if err != nil {
			return nil, err
		}
		out["items"], out["statuses"] = items, statuses
	}
	return out, nil
}

// items returns the items of the request, and the reported statuses.
func (v *evaluation) items() (items, statuses []any, err error) {
	items, statuses = []any{}, []any{}
	for i, item := range v.request.AggregatedStatus {
		out := map[string]any{
			"clusterName": item.ClusterName, "applied": item.Applied, "appliedMessage": item.AppliedMessage,
			"health": string(item.Health),
		}
		items = append(items, out)
		if item.Status == nil || jsontext.KindOf(item.Status.Raw) != jsontext.Object {
			continue // the cluster has not reported, as in package native
		}
		var status map[string]any
		if err := jsontext.Decode(item.Status.Raw, &status); err != nil {
			return nil, nil, &interpreter.RequestError{Code: http.StatusBadRequest,
				Field:   fmt.Sprintf("request.aggregatedStatus[%d]", i),
				Problem: fmt.Sprintf("of cluster %q cannot be decoded", item.ClusterName), Err: err}
		}
		out["status"] = status
		statuses = append(statuses, status)
	}
	return items, statuses, nil
}

// answer stores the result of a field in the response.
func (v *evaluation) answer(name string, result ref.Val, to *interpreter.Response) error {
	switch name {
	case "health":
		healthy, ok := result.(types.Bool)
		if !ok {
			return mistype(boolean, result)
		}
		to.Healthy = new(bool(healthy))
		return nil
	case "replicas":
		n, err := replicas(result)
		to.Replicas = &n
		return err
	case "components", "dependencies":
		if _, ok := result.(traits.Lister); !ok {
			return mistype(list, result)
		}
	default:
		if _, ok := result.(traits.Mapper); !ok {
			return mistype(object, result)
		}
	}
	out, err := plain(&v.steps, result)
	if err != nil {
		return inResult(err)
	}
	switch name {
	case "requirements":
		return inResult(v.requirements(out, to))
	case "components":
		return inResult(components(out, to))
	case "dependencies":
		return inResult(dependencies(out, to))
	case "status":
		raw, err := json.Marshal(out)
		to.RawStatus = &runtime.RawExtension{Raw: raw}
		return err
	case "aggregate": // null removes the earlier status
		return v.patched(to, map[string]any{"status": nil}, map[string]any{"status": out})
	case "prune":
		return v.patched(to, pruning(), out.(map[string]any))
	}
	return v.patched(to, out.(map[string]any))
}

func inResult(err error) error {
	if err != nil {
		return fmt.Errorf("the result: %w", err)
	}
	return nil
}

func mistype(want result, got ref.Val) error { return mistyped(want, typeOf(got)) }

func mistyped(want result, got string) error {
	return fmt.Errorf("the result: got %s, expected %s", got, want)
}

// checked returns the error of a check of answers with the path in the result.
func checked(err error) error {
	var answer *interpreter.AnswerError
	if !errors.As(err, &answer) {
		return err
	}
	field := strings.TrimPrefix(answer.Field, "response.")
	for _, list := range []string{"components", "dependencies"} {
		field = strings.TrimPrefix(field, list)
	}
	// The cause is omitted: it quotes a value of the result.
	return fmt.Errorf("the result: %s %s", field, strings.TrimSuffix(answer.Detail, ": the operation requires it"))
}

func replicas(result ref.Val) (int32, error) {
	var n int64
	switch v := result.(type) {
	case types.Int:
		n = int64(v)
	case types.Uint:
		n = int64(min(v, math.MaxInt64))
	case types.Double: // JSON may have 1.0
		if n = int64(v); types.Double(n) != v {
			return 0, mistype(number, result)
		}
	default:
		return 0, mistype(number, result)
	}
	if n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("the result: an int must be from 0 to %d", math.MaxInt32)
	}
	return int32(n), nil
}

func (v *evaluation) requirements(out any, to *interpreter.Response) error {
	r := &interpreter.ReplicaRequirements{}
	if err := decode(out, r, "resourceRequest, nodeClaim, priorityClassName, namespace"); err != nil {
		return err
	}
	r.Namespace = cmp.Or(r.Namespace, v.object.GetNamespace())
	to.ReplicaRequirements = r
	return notNegative("", r.ResourceRequest)
}

func components(out any, to *interpreter.Response) error {
	if err := decode(out, &to.Components, "name, replicas, replicaRequirements"); err != nil {
		return err
	}
	for i, c := range to.Components {
		if c.ReplicaRequirements != nil {
			path := fmt.Sprintf("[%d].replicaRequirements.", i)
			if err := notNegative(path, c.ReplicaRequirements.ResourceRequest); err != nil {
				return err
			}
		}
	}
	return nil
}

// notNegative checks requests. path is the path of the requirements.
func notNegative(path string, requests corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if q := requests[name]; q.Sign() < 0 {
			return fmt.Errorf("%sresourceRequest.%s is negative", path, name)
		}
	}
	return nil
}

// dependencies sorts the dependencies, and removes duplicates.
func dependencies(out any, to *interpreter.Response) error {
	var found []interpreter.DependentObjectReference
	if err := decode(out, &found, "apiVersion, kind, namespace, name, labelSelector"); err != nil {
		return err
	}
	type keyed struct {
		*interpreter.DependentObjectReference
		key string // differs if the selector does
	}
	sorted := make([]keyed, len(found))
	for i := range found {
		key, err := json.Marshal(&found[i])
		if err != nil {
			return err
		}
		sorted[i] = keyed{&found[i], string(key)}
	}
	slices.SortFunc(sorted, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.key, b.key))
	})
	for _, d := range slices.CompactFunc(sorted, func(a, b keyed) bool { return a.key == b.key }) {
		to.Dependencies = append(to.Dependencies, *d.DependentObjectReference)
	}
	return nil
}

// pruning returns the merge patch that removes status and the fields of the API server.
func pruning() map[string]any {
	out := map[string]any{}
	for _, path := range aggregate.ServerFields() {
		_ = put(out, path, nil) // no path begins with another
	}
	return out
}

func (v *evaluation) patched(to *interpreter.Response, patches ...map[string]any) error {
	changed := v.request.Object.Raw
	for _, patch := range patches {
		if err := v.sameIdentity(patch); err != nil {
			return err
		}
		var err error
		if changed, err = mergeRaw(changed, patch); err != nil {
			return err
		}
	}
	if len(changed) > interpreter.MaxBytes {
		return fmt.Errorf("the result makes an object of %d bytes, more than %d", len(changed), interpreter.MaxBytes)
	}
	response := interpreter.PatchResponse(v.request.Object.Raw, changed)
	if !response.Successful {
		return errors.New(response.Status.Message)
	}
	to.Patch, to.PatchType = response.Patch, response.PatchType
	return nil
}

// sameIdentity returns an error if a patch changes the identity of the object. Prune may remove the
// UID.
func (v *evaluation) sameIdentity(patch map[string]any) error {
	metadata, named := patch["metadata"]
	fields, ok := metadata.(map[string]any)
	if named && !ok {
		return errors.New("the result replaces metadata: name the fields to change")
	}
	for _, name := range []string{"spec", "status"} { // these are objects in all kinds
		if _, ok := patch[name].(map[string]any); !ok && patch[name] != nil {
			return fmt.Errorf("the result: %s: got %s, expected an object", name, typeOf(value(patch[name])))
		}
	}
	for _, f := range []struct {
		in           map[string]any
		name, before string
	}{
		{patch, "apiVersion", v.object.GetAPIVersion()},
		{patch, "kind", v.object.GetKind()},
		{fields, "name", v.object.GetName()},
		{fields, "namespace", v.object.GetNamespace()},
		{fields, "uid", string(v.object.GetUID())},
	} {
		change, named := f.in[f.name]
		after, isText := change.(string)
		prunes := f.name == "uid" && v.request.Operation == v1alpha1.InterpreterOperationPrune
		removed := change == nil && (f.before == "" || prunes)
		if named && !removed && !(isText && after == f.before) {
			return fmt.Errorf("the result changes the %s of the object: it would be another object", f.name)
		}
	}
	return nil
}
