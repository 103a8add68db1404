// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestInvalidResultIsAnError checks that an invalid result is an error with its place and its object, and
// never another answer.
func TestInvalidResultIsAnError(t *testing.T) {
	object := parsed(
		t,
		`metadata: {name: t, namespace: ns, uid: u, annotations: {a: b}}, spec: {text: x, half: 0.5, one: 1.0,
		list: [1], large: 1e300, none: null, deep: {a: 1}}`,
	)
	status := []interpreter.AggregatedStatusItem{
		{
			ClusterName: "a",
			Status: &runtime.RawExtension{
				Raw: []byte(`{"n":1,"s":"x","big":9223372036854775807,"conditions":[{"type":1}]}`),
			},
		},
		{ClusterName: "b", Status: &runtime.RawExtension{Raw: []byte(`{"n":2,"s":"y","big":1,"conditions":"no"}`)}},
	}
	for _, tt := range []struct {
		operation interpreter.Operation
		spec      string
		want      string
	}{
		{v1alpha1.InterpreterOperationInterpretHealth, "health: object.spec.text",
			"the result: got a string, expected a bool"},
		{v1alpha1.InterpreterOperationInterpretHealth, "health: object.status.ready", "no such key: status"},
		{v1alpha1.InterpreterOperationInterpretHealth, "health: object.spec.text.ready", "no such key: ready"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: object.spec.text",
			"the result: got a string, expected an int"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: object.spec.half",
			"the result: got a double, expected an int"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: object.spec.large",
			"the result: got a double, expected an int"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: object.spec.none",
			"the result: got null, expected an int"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: -1", "the result: an int must be from 0 to 2147483647"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: 2147483648",
			"the result: an int must be from 0 to 2147483647"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: 18446744073709551615u",
			"the result: an int must be from 0 to 2147483647"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: 1\n  requirements: \"{'cpu': '1'}\"",
			"the result: unknown field cpu: write resourceRequest, nodeClaim, priorityClassName, namespace"},
		{v1alpha1.InterpreterOperationInterpretReplica,
			"replicas: 1\n  requirements: \"{'resourceRequest': {'cpu': 'much'}}\"",
			"the result: a quantity must be a number with a unit"},
		{v1alpha1.InterpreterOperationInterpretReplica,
			"replicas: 1\n  requirements: \"{'resourceRequest': {'cpu': '1e999999999'}}\"",
			"the result: a quantity is too long, or its exponent is too large"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: 1\n  requirements: podRequirements(object.spec.list)",
			"the pod template: a list is not an object"},
		{v1alpha1.InterpreterOperationInterpretReplica,
			"replicas: 1\n  requirements: \"podRequirements({'spec': {'containers': 1}})\"",
			"the pod template: spec.containers: got a number, expected a list"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: int(quantity(object.spec.list))",
			"a quantity is a string or a number"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: int(quantity('1e999999999'))",
			"a quantity is too long, or its exponent is too large"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: integer('1x', 1)", "the string is not an integer"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: integer(1.5, 1)", "a double is not an integer"},
		{v1alpha1.InterpreterOperationInterpretReplica, "replicas: integer(object.spec.list, 1)", "a list is not an integer"},
		{v1alpha1.InterpreterOperationInterpretComponent, "components: \"[{'name': 'a', 'replica': 1}]\"",
			"the result: unknown field [0].replica: write name, replicas, replicaRequirements"},
		{v1alpha1.InterpreterOperationInterpretComponent, "components: \"[{'name': '', 'replicas': 1}]\"",
			"the result: [0].name is missing"},
		{v1alpha1.InterpreterOperationInterpretComponent, "components: \"[{'name': 'a', 'replicas': 1.5}]\"",
			"the result: replicas: got a number, expected an int"},
		{v1alpha1.InterpreterOperationInterpretComponent, "components: \"['a']\"",
			"the result: got a string, expected an object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: object.spec.list",
			"the result: got a list, expected an object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'metadata': {'name': 'x'}}\"",
			"the result changes the name of the object: it would be another object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'metadata': {'uid': null}}\"",
			"the result changes the uid of the object: it would be another object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'metadata': {'namespace': object.spec.deep}}\"",
			"the result changes the namespace of the object: it would be another object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'metadata': null}\"",
			"the result replaces metadata: name the fields to change"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'spec': 'text'}\"",
			"the result: spec: got a string, expected an object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'status': [1]}\"",
			"the result: status: got a list, expected an object"},
		{v1alpha1.InterpreterOperationInterpretReplica,
			"replicas: 1\n  requirements: \"{'resourceRequest': {'cpu': '1', 'memory': '-1Gi'}}\"",
			"the result: resourceRequest.memory is negative"},
		{v1alpha1.InterpreterOperationInterpretComponent,
			"components: \"[{'name': 'a', 'replicas': 1, 'replicaRequirements': " +
				"{'resourceRequest': {'cpu': '-1'}}}]\"", "the result: [0].replicaRequirements.resourceRequest.cpu is negative"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'kind': 'U'}\"",
			"the result changes the kind of the object: it would be another object"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'spec': {'x': timestamp('2026-01-01T00:00:00Z')}}\"",
			"the result: spec: x: a timestamp is not a JSON value: convert it with string or int"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'spec': {'x': object.?status}}\"",
			"the result: spec: x: an optional is not a value: write ?key or orValue"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'spec': {'x': 1.0 / 0.0}}\"",
			"the result: spec: x: +Inf is not a JSON number"},
		{v1alpha1.InterpreterOperationReviseReplica, "revise: \"{'spec': {1: 2}}\"",
			"the result: spec: a key of an object is an int: write a string"},
		{v1alpha1.InterpreterOperationRetain, "retain: observed.spec.list", "the result: got a list, expected an object"},
		{v1alpha1.InterpreterOperationRetain, "retain: pick(observed, ['spec', 'spec.list'])",
			"the path spec.list is in the path spec"},
		{v1alpha1.InterpreterOperationRetain, "retain: pick(observed, ['spec.list', 'spec'])",
			"the path spec is there twice, or in another path"},
		{v1alpha1.InterpreterOperationRetain, "retain: merge([observed.spec.text])", "a string is not an object"},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: statuses", ""},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: \"{'n': statuses.values('s').sum()}\"",
			"a string is not a number: it cannot be added"},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: statuses.sums(['n', 'big'])",
			"[1].big: the sum is too large"},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: \"{?'n': [1, 'a'].min()}\"",
			"an int and a string cannot be compared"},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: \"{?'n': [{}, {}].max()}\"",
			"an object cannot be compared"},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: \"{'c': joinConditions(items)}\"",
			"a value is not a list"},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: \"{'c': aggregateConditions(object, items, [])}\"",
			`status.conditions of cluster "a" are not conditions: type: got an int, expected a string`},
		{v1alpha1.InterpreterOperationAggregateStatus, "aggregate: sumFields(statuses.values('s'))",
			"a string is not an object"},
		{v1alpha1.InterpreterOperationInterpretDependency, "dependencies: \"[{'apiVersion': 'v1', 'kind': 'Secret'}]\"",
			"the result: [0].name is missing"},
		{v1alpha1.InterpreterOperationInterpretDependency,
			"dependencies: references(object, 'v1', 'Secret', [object.spec.list])",
			"a name is a list: write a string"},
		{v1alpha1.InterpreterOperationInterpretDependency, "dependencies: \"[{'name': 'a'}]\"",
			"the result: [0].apiVersion is missing"},
		{v1alpha1.InterpreterOperationInterpretDependency,
			"dependencies: \"[{'apiVersion': 'v1', 'kind': 'A', 'name': 'x', " +
				"'labelSelector': {'matchLabels': {'a': 'b'}}}]\"", "the result: [0] has both a name and a labelSelector"},
		{v1alpha1.InterpreterOperationInterpretDependency,
			"dependencies: \"[{'apiVersion': 'v1', 'kind': 'A', 'labelSelector': {'a': 'b'}}]\"",
			"the result: unknown field [0].labelSelector.a"},
		{v1alpha1.InterpreterOperationInterpretComponent,
			"components: \"[{'name': 'a', 'replicas': 1}, {'name': 'a', 'replicas': 2}]\"",
			`the result: [1].name is a duplicate: "a"`},
		{v1alpha1.InterpreterOperationInterpretStatus, "status: \"{'x': b'x'}\"",
			"the result: x: bytes is not a JSON value: convert it with string or int"},
		{v1alpha1.InterpreterOperationPrune, "prune: \"{'metadata': {'uid': 'x'}}\"",
			"the result changes the uid of the object: it would be another object"},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			i, err := withSpec("  " + tt.spec)
			if tt.want == "" {
				if err == nil {
					t.Error("loaded")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			answer, err := i.Interpret(
				t.Context(),
				interpreter.Query{
					Operation: tt.operation,
					Object:    object,
					Observed:  object,
					Replicas:  2,
					Statuses:  status,
				},
			)
			var mistake *customization.Error
			if !errors.As(err, &mistake) {
				t.Fatalf("%+v, %v", answer, err)
			}
			if mistake.Operation != tt.operation || mistake.Object != "T ns/t" || mistake.Line < 6 ||
				mistake.Column < 10 {
				t.Errorf("%+v", mistake)
			}
			if !strings.HasPrefix(mistake.Err.Error(), tt.want) {
				t.Errorf("%s, want %s", mistake.Err, tt.want)
			}
		})
	}
}

// TestInvalidRequestIsNoErrorOfCustomization checks that a mistake in a request is not reported as a mistake in the
// customization.
func TestInvalidRequestIsNoErrorOfCustomization(t *testing.T) {
	i, err := withSpec("  aggregate: \"{}\"\n  retain: \"{}\"\n  revise: \"{}\"\n  health: object.no.such")
	if err != nil {
		t.Fatal(err)
	}
	object := parsed(t, "metadata: {name: t}")
	for _, tt := range []struct {
		q    interpreter.Query
		want string
	}{
		{interpreter.Query{Operation: v1alpha1.InterpreterOperationRetain, Object: object}, "Query.Observed is nil"},
		{interpreter.Query{Operation: v1alpha1.InterpreterOperationReviseReplica, Object: object, Replicas: -1},
			"Query.Replicas is negative"},
		{interpreter.Query{Operation: v1alpha1.InterpreterOperationInterpretHealth}, "object is nil"},
	} {
		_, err := i.Interpret(t.Context(), tt.q)
		var request *interpreter.RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	for operation, code := range map[interpreter.Operation]int32{v1alpha1.InterpreterOperationPrune: 501,
		v1alpha1.InterpreterOperationInterpretHealth: 500, v1alpha1.InterpreterOperationRetain: 400,
		v1alpha1.InterpreterOperationReviseReplica: 400} {
		var r interpreter.Request
		r.Operation, r.Kind.Group, r.Kind.Version, r.Kind.Kind = operation, "example.com", "v1", "T"
		r.Object.Raw = []byte(`{"apiVersion":"example.com/v1","kind":"T"}`)
		if got := i.Handle(t.Context(), r); got.Successful || got.Status.Code != code {
			t.Errorf("%s: %+v", operation, got.Status)
		}
	}
}

// TestPatchHasOnlyTheChange checks that fields which a merge patch does not name keep their exact
// text, also numbers without a Go type.
func TestPatchHasOnlyTheChange(t *testing.T) {
	i, err := withSpec(
		"  revise: \"{'spec': {'a': {'b': replicas, 'c': null, 'new': {'x': null, 'y': 1}}, 'list': [1]}, 'added': {'z': 1}}\"",
	)
	if err != nil {
		t.Fatal(err)
	}
	var r interpreter.Request
	r.Operation, r.Kind.Group, r.Kind.Version, r.Kind.Kind, r.DesiredReplicas = v1alpha1.InterpreterOperationReviseReplica,
		"example.com",
		"v1", "T", new(int32(7))
	r.Object.Raw = []byte(
		`{"apiVersion":"example.com/v1","kind":"T","large":12345678901234567890,"e":1e2, "spec": {"a":{"b":1,"c":2,"large":1.0},"list":[1,2],"\u0061b":null}}`,
	)
	got := i.Handle(t.Context(), r)
	want := `[{"op":"replace","path":"/spec/a/b","value":7},{"op":"remove","path":"/spec/a/c"},{"op":"add","path":"/spec/a/new","value":{"y":1}},` +
		`{"op":"remove","path":"/spec/list/1"},{"op":"add","path":"/added","value":{"z":1}}]`
	if !got.Successful || string(got.Patch) != want {
		t.Errorf("%+v\n%s, want\n%s", got.Status, got.Patch, want)
	}
}

// TestFunctions checks the functions for objects, each on its own.
func TestFunctions(t *testing.T) {
	object := parsed(
		t,
		`metadata: {name: t, generation: 2}, status: {a: {b: 1, c: 2}, conditions: [{type: Ready, status: "True", extra: 1, reason: null}]},
		spec: {items: [{i: 1, s: b, m: {x: 1, z: z}}, {i: 2.5, s: "", m: {x: 2, q: {r: 1}}}, {i: null, s: a}]}`,
	)
	for expression, want := range map[string]string{
		"object.spec.items.values('i')":                                "[1, 2.5]",
		"object.spec.items.values('s')":                                "['b', 'a']",
		"object.spec.items.values('m.x')":                              "[1, 2]",
		"object.spec.items.values('s').first()":                        "optional.of('b')",
		"object.spec.items.values('i').sum()":                          "3.5",
		"[].sum()":                                                     "0",
		"[1.5, 1].sum()":                                               "2.5",
		"object.spec.items.sums(['i', 'm.x', 'no'])":                   "{'i': 3.5, 'm': {'x': 3}, 'no': 0}",
		"['2026-01-02T00:00:00Z', '2026-01-01T00:00:00Z'].min()":       "optional.of('2026-01-01T00:00:00Z')",
		"[1, 3, 2.5].max()":                                            "optional.of(3)",
		"[].max()":                                                     "optional.none()",
		"sumFields(object.spec.items.values('m'))":                     "{'x': 3, 'z': 'z', 'q': {'r': 1}}",
		"sumFields([{'a': 'x'}, {'a': 1}, {'a': {'b': 1}}])":           "{'a': {'b': 1}}",
		"sumFields([])":                                                "{}",
		"pick(object, ['status.a.b', 'status.no', 'no'])":              "{'status': {'a': {'b': 1}}}",
		"pick(object.?no, ['a'])":                                      "{}",
		"merge([{'a': {'b': 1, 'c': 1}}, {'a': {'b': null, 'd': 2}}])": "{'a': {'c': 1, 'd': 2}}",
		"merge([object.?no, null, {'a': 1}])":                          "{'a': 1}",
		"omitEmpty({'a': 0, 'b': '', 'c': [], 'd': {'e': null}, 'f': false, 'g': [0], 'h': {'i': 1}})": "{'f': false, 'g': [0], 'h': {'i': 1}}",
		"omitEmpty({'a': 0})": "{}",
		"condition(object, 'Ready')": "{'type': 'Ready', 'status': 'True', 'reason': '', " +
			"'message': '', 'extra': 1}",
		"condition(object, 'No').status":                     "''",
		"condition({}, 'No').type":                           "'No'",
		"reflectStatus(object, ['a.b'])":                     "{'a': {'b': 1}, 'generation': 2}",
		"reflectStatus({})":                                  "{}",
		"quantity('1500m')":                                  "1.5",
		"['1', '500m', 2].sumQuantities()":                   "'3500m'",
		"['1Gi', '512Mi'].sumQuantities()":                   "'1536Mi'",
		"[].sumQuantities()":                                 "'0'",
		"latestConditions([], 'type')":                       "[]",
		"quantity(2)":                                        "2.0",
		"quantity('1Gi') == 1073741824.0":                    "true",
		"integer('12', 1)":                                   "12",
		"integer('', 1)":                                     "1",
		"integer(object.?no, 3)":                             "3",
		"integer(null, 3)":                                   "3",
		"integer(4.0, 3)":                                    "4",
		"maxRequirements([])":                                "{}",
		"references({}, 'v1', 'Secret', ['', 'a'])":          "[{'apiVersion': 'v1', 'kind': 'Secret', 'name': 'a'}]",
		"podDependencies({}, {})":                            "[]",
		"cel.bind(x, [], (x + [1]).size() + x.size())":       "1",
		"{'a': 1, 'b': 2}.transformMap(k, v, k + string(v))": "{'a': 'a1', 'b': 'b2'}",
		"maxRequirements([{'resourceRequest': {'cpu': '1', 'a': 2}}, {'x': 1, 'resourceRequest': {'cpu': '1500m', 'a': 1}}])": "{'resourceRequest': {'cpu': '1500m', 'a': 2}}",
	} {
		i, err := withSpec(fmt.Sprintf("  health: |\n    dyn(%s) == dyn(%s)\n", expression, want))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if equal, err := i.Health(t.Context(), object); err != nil || !equal {
			t.Errorf("%s is not %s: %v", expression, want, err)
		}
	}
}

// TestConcurrentUse asks questions and replaces customizations concurrently, for the race detector.
// Each answer is from one of the customizations.
func TestConcurrentUse(t *testing.T) {
	i, err := withSpec("  replicas: 1")
	if err != nil {
		t.Fatal(err)
	}
	object := parsed(t, "metadata: {name: t}")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				if n, _, err := i.Replicas(t.Context(), object); err != nil || n != 1 && n != 2 {
					t.Error(n, err)
				}
			}
		})
	}
	group.Go(func() {
		for n := range 50 {
			file := customization.File{Name: "f", Text: []byte(oneWith(fmt.Sprintf("  replicas: %d", 1+n%2)))}
			if err := i.Set(file); err != nil {
				t.Error(err)
			}
			i.Kinds()
		}
	})
	group.Wait()
}
