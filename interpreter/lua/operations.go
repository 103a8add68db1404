// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// operation is an operation of a customization.
type operation struct {
	name     interpreter.Operation
	field    string // of spec.customizations
	function string // of the script
	answer   func(m *meter, q *question, results []glua.LValue, r *interpreter.Response) error
}

func (o *operation) path() string { return "spec.customizations." + o.field + ".luaScript" }

// operations are the operations of Karmada's ResourceInterpreterCustomization.
var operations = []*operation{
	{v1alpha1.InterpreterOperationRetain, "retention", "Retain", answerObject},
	{v1alpha1.InterpreterOperationInterpretReplica, "replicaResource", "GetReplicas", answerReplicas},
	{v1alpha1.InterpreterOperationInterpretComponent, "componentResource", "GetComponents", answerComponents},
	{v1alpha1.InterpreterOperationReviseReplica, "replicaRevision", "ReviseReplica", answerObject},
	{v1alpha1.InterpreterOperationInterpretStatus, "statusReflection", "ReflectStatus", answerStatus},
	{v1alpha1.InterpreterOperationAggregateStatus, "statusAggregation", "AggregateStatus", answerObject},
	{v1alpha1.InterpreterOperationInterpretHealth, "healthInterpretation", "InterpretHealth", answerHealth},
	{v1alpha1.InterpreterOperationInterpretDependency, "dependencyInterpretation", "GetDependencies", answerDependencies},
}

// question is a request with decoded arguments.
type question struct {
	*interpreter.Request
	arguments []any
}

func (q *question) decode(m *meter) error {
	object, observed := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := q.Decode(object); err != nil {
		return err
	}
	if gvk := schema.GroupVersionKind(q.Kind); object.GroupVersionKind() != gvk {
		return &interpreter.RequestError{Code: http.StatusBadRequest, UID: q.UID, Field: "request.object",
			Problem: fmt.Sprintf("is a %s %s, but the request has the kind %s %s",
				object.GetAPIVersion(), object.GetKind(), gvk.GroupVersion(), gvk.Kind)}
	}
	q.arguments = []any{object.Object}
	if !m.chargeParsed(q.Object.Raw) {
		return m.err
	}
	switch q.Operation {
	case v1alpha1.InterpreterOperationRetain:
		if err := q.DecodeObserved(observed); err != nil {
			return err
		}
		if !m.chargeParsed(q.ObservedObject.Raw) {
			return m.err
		}
		q.arguments = append(q.arguments, observed.Object)
	case v1alpha1.InterpreterOperationReviseReplica:
		if q.DesiredReplicas == nil {
			return errors.New("request.replicas is missing")
		}
		q.arguments = append(q.arguments, int64(*q.DesiredReplicas))
	case v1alpha1.InterpreterOperationAggregateStatus:
		raw, err := json.Marshal(q.AggregatedStatus) // without statuses null, which is nil in Lua
		if err != nil {
			return err
		}
		statuses, err := m.parse(raw)
		if err != nil {
			return err
		}
		q.arguments = append(q.arguments, statuses)
	}
	return nil
}

func (q *question) values(m *meter) ([]glua.LValue, error) {
	if err := q.decode(m); err != nil {
		return nil, err
	}
	values := make([]glua.LValue, len(q.arguments))
	for i, argument := range q.arguments {
		var err error
		if values[i], err = m.toLua(argument); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// respond runs the scripts. Only InterpretDependency may have several.
func (i *Interpreter) respond(ctx context.Context, request *interpreter.Request, scripts []*script) (
	interpreter.Response, error,
) {
	response := interpreter.Succeeded("")
	for _, s := range scripts {
		if err := i.run(ctx, s, &question{Request: request}, &response); err != nil {
			return interpreter.Response{}, about(request, err)
		}
	}
	return response, nil
}

func table(value glua.LValue) (*glua.LTable, error) {
	t, ok := value.(*glua.LTable)
	if !ok {
		return nil, fmt.Errorf("got %s, expected a table%s", typeName(value), missing(value))
	}
	return t, nil
}

// typeName returns the type of a value with its article.
func typeName(value glua.LValue) string {
	if value == glua.LNil {
		return "nil"
	}
	return "a " + value.Type().String()
}

// missing returns advice for a result that is nil.
func missing(value glua.LValue) string {
	if value == glua.LNil {
		return ": each path of the script must return one"
	}
	return ""
}

func answerObject(m *meter, q *question, results []glua.LValue, r *interpreter.Response) error {
	t, err := table(results[0])
	if err != nil {
		return err
	}
	status := noStatus
	if q.Operation == v1alpha1.InterpreterOperationAggregateStatus {
		status = statusOfObject
	}
	after, err := m.encode(t, true, status, q.arguments[0], q.arguments...)
	if err != nil {
		return err
	}
	// The patch has only the changes of the script: Lua does not represent all values.
	before, err := json.Marshal(withoutNull(q.arguments[0]))
	if err != nil {
		return err
	}
	if !m.charge(len(before) + 2*len(q.Object.Raw)) {
		return m.err
	}
	changed, err := jsontext.Merge(q.Object.Raw, before, after, nil, true)
	if err != nil {
		return err
	}
	if err := sameIdentity(q.Object.Raw, changed); err != nil {
		return err
	}
	patched := interpreter.PatchResponse(q.Object.Raw, changed)
	if !patched.Successful {
		return errors.New(patched.Status.Message)
	}
	*r = patched
	return nil
}

// withoutNull returns a decoded value without null members, as scripts receive it.
func withoutNull(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			if member != nil {
				out[name] = withoutNull(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = withoutNull(element)
		}
		return out
	}
	return value
}

// sameIdentity returns an error if a script has changed the identity of an object.
func sameIdentity(before, after []byte) error {
	for _, path := range [][]string{
		{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"},
	} {
		was, is := before, after
		for _, name := range path {
			was, is = jsontext.Member(was, name), jsontext.Member(is, name)
		}
		a, _ := jsontext.Text(was)
		if b, _ := jsontext.Text(is); a != b {
			return fmt.Errorf("the script changes %s: the answer would be another object", strings.Join(path, "."))
		}
	}
	return nil
}

func answerReplicas(m *meter, _ *question, results []glua.LValue, r *interpreter.Response) error {
	replicas, err := integer(results[0])
	if err != nil {
		return fmt.Errorf("first result: %w", err)
	}
	r.Replicas = &replicas
	if results[1] == glua.LNil {
		return nil
	}
	t, err := table(results[1])
	if err == nil {
		r.ReplicaRequirements = &interpreter.ReplicaRequirements{}
		err = m.decode(t, r.ReplicaRequirements)
	}
	if err != nil {
		return fmt.Errorf("second result: %w", err)
	}
	return nil
}

func answerComponents(m *meter, _ *question, results []glua.LValue, r *interpreter.Response) error {
	if results[0] == glua.LNil {
		return nil
	}
	t, err := table(results[0])
	if err != nil {
		return err
	}
	return m.decode(t, &r.Components)
}

func answerStatus(m *meter, q *question, results []glua.LValue, r *interpreter.Response) error {
	t, err := table(results[0])
	if err != nil {
		return err
	}
	object, _ := q.arguments[0].(map[string]any)
	raw, err := m.encode(t, true, onlyStatus, object["status"], q.arguments...)
	if err != nil {
		return err
	}
	r.RawStatus = &runtime.RawExtension{Raw: raw}
	return nil
}

func answerHealth(_ *meter, _ *question, results []glua.LValue, r *interpreter.Response) error {
	healthy, ok := results[0].(glua.LBool)
	if !ok {
		return fmt.Errorf("got %s, expected a boolean%s", typeName(results[0]), missing(results[0]))
	}
	r.Healthy = (*bool)(&healthy)
	return nil
}

// compareDependencies orders dependencies as Karmada does, and then by their selectors.
func compareDependencies(a, b interpreter.DependentObjectReference) int {
	return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(selector(a), selector(b)))
}

func selector(d interpreter.DependentObjectReference) string {
	if d.LabelSelector == nil {
		return ""
	}
	return metav1.FormatLabelSelector(d.LabelSelector)
}

// answerDependencies adds the dependencies of one script to those of the others.
func answerDependencies(m *meter, _ *question, results []glua.LValue, r *interpreter.Response) error {
	t, err := table(results[0])
	if err != nil {
		return err
	}
	var found []interpreter.DependentObjectReference
	if err := m.decode(t, &found); err != nil {
		return err
	}
	r.Dependencies = append(r.Dependencies, found...)
	slices.SortFunc(r.Dependencies, compareDependencies)
	r.Dependencies = slices.CompactFunc(r.Dependencies, func(a, b interpreter.DependentObjectReference) bool {
		return compareDependencies(a, b) == 0
	})
	return nil
}
