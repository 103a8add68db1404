// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package customization_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/internal/testing/hostiletest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// scene is an interpreter, with an object and statuses as large as a cluster may store.
type scene struct {
	*customization.Interpreter
	object *unstructured.Unstructured
	items  []interpreter.AggregatedStatusItem
}

func newScene(t testing.TB) *scene {
	t.Helper()
	i, err := customization.New()
	if err != nil {
		t.Fatal(err)
	}
	list, deep, fields := []any{}, map[string]any{}, map[string]any{}
	for i := range 5_000 {
		list = append(list, map[string]any{"n": int64(i), "s": fmt.Sprint("item", i),
			"m": map[string]any{fmt.Sprint(i): int64(1)}})
		fields[fmt.Sprint("f", i)] = map[string]any{"x": int64(i)}
	}
	for range 500 {
		deep = map[string]any{"a": deep}
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "T", "metadata": map[string]any{"name": "t"},
		"spec": map[string]any{"list": list, "deep": deep, "fields": fields, "text": strings.Repeat("a", 200_000)},
	}}
	var conditions []map[string]string
	for i := range 20 {
		conditions = append(conditions, map[string]string{"type": fmt.Sprint("T", i), "status": "True",
			"message": strings.Repeat("m", 50)})
	}
	status, err := json.Marshal(map[string]any{"n": 1, "conditions": conditions, "fields": map[string]any{"x": 1}})
	if err != nil {
		t.Fatal(err)
	}
	var items []interpreter.AggregatedStatusItem
	for i := range 500 {
		items = append(items, interpreter.AggregatedStatusItem{ClusterName: fmt.Sprint("cluster", i),
			Status: &runtime.RawExtension{Raw: status}})
	}
	return &scene{i, object, items}
}

// run evaluates an expression for the operation of a field on the large object, and checks its time
// and memory. It reports whether the operation returned an answer.
func (s *scene) run(t testing.TB, field, expression string) (answered bool) {
	t.Helper()
	quoted, err := json.Marshal(expression)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Set(customization.File{Text: []byte(oneWith("  " + field + ": " + string(quoted)))})
	if err != nil {
		t.Logf("%.300s", err)
		return false
	}
	operation := map[string]interpreter.Operation{"aggregate": v1alpha1.InterpreterOperationAggregateStatus,
		"health":       v1alpha1.InterpreterOperationInterpretHealth,
		"status":       v1alpha1.InterpreterOperationInterpretStatus,
		"dependencies": v1alpha1.InterpreterOperationInterpretDependency}[field]
	hostiletest.Check(t, func() {
		_, err = s.Interpret(t.Context(), interpreter.Query{Operation: operation, Object: s.object, Statuses: s.items})
	})
	var mistake *customization.Error
	if err != nil && !errors.As(err, &mistake) && !errors.Is(err, interpreter.ErrNotInterpreted) {
		t.Errorf("%v is no Error", err)
	}
	if err != nil && len(err.Error()) > 4<<10 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	t.Logf("%.300v", err)
	return err == nil
}

// TestHostileExpressions checks that no expression takes long or allocates much. An answer that
// would be too large is an error.
func TestHostileExpressions(t *testing.T) {
	s := newScene(t)
	again := func(of string) string { return "{'x': lists.range(2000).map(i, " + of + ")}" }
	double := func(start string, times int) string {
		return "[" + start + "]" + strings.Repeat(".map(x, x + x)", times)
	}
	for _, tt := range []struct{ name, field, expression string }{
		{"the object again and again", "status", again("object")},
		{"a text again and again", "status", again("object.spec.text")},
		{"a text that doubles", "status", "{'x': " + double("object.spec.text", 12) + "}"},
		{"a list that doubles", "status", "{'x': " + double("[1]", 40) + "}"},
		{"a list of lists", "status", "{'x': [lists.range(1000)].map(a, a.map(i, a)).map(b, b.map(i, b))}"},
		{"objects in objects", "status", "[{}]" + strings.Repeat(".map(x, {'a': x, 'b': x})", 40) + "[0]"},
		{"wide objects", "status", "lists.range(60000).transformMapEntry(i, v, {string(i): v})"},
		{"a loop in a loop", "health",
			"lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))"},
		{"values", "status", again("object.spec.list.values('m')")},
		{"values of a list that doubles", "health", double("object.spec.list", 30) + "[0].values('n').sum() == 0"},
		{"sums", "status", "object.spec.list.sums(lists.range(5000).map(i, 'm.' + string(i)))"},
		{"long paths", "health", "object.spec.list.values(lists.range(5000).map(i, 'a').join('.')).size() < 0"},
		{"sum of fields", "status",
			"sumFields(object.spec.list.values('m') + object.spec.list.values('m') + object.spec.list.values('m'))"},
		{"sums of fields", "status", again("sumFields([object.spec.fields, object.spec.fields])")},
		{"merge", "status", again("merge([object.spec.fields, {'a': 1}])")},
		{"many small merges", "status", "merge([object.spec] + lists.range(20000).map(i, {'fields': {'f1': {'x': i}}}))"},
		{"omitEmpty", "status", again("omitEmpty(object)")},
		{"pick", "status", again("pick(object, ['spec.list', 'spec.text'])")},
		{"many paths", "status", "pick(object, lists.range(5000).map(i, 'spec.fields.f' + string(i)))"},
		{"min", "health", again("object.spec.list.values('s').min()") + ".size() < 0"},
		{"long texts are compared", "health", "lists.range(2000).map(i, object.spec.text).min() == optional.of('')"},
		{"conditions", "aggregate", again("aggregateConditions(object, items, [])")},
		{"joined conditions", "aggregate", again("joinConditions(items)")},
		{"joined conditions of lists that double", "aggregate", "{'x': " + double("items", 20) +
			".map(i, joinConditions(i))}"},
		{"latest conditions", "aggregate", again("latestConditions(items, 'type')")},
		{"latest conditions of lists that double", "aggregate", "{'x': " + double("items", 20) +
			".map(i, latestConditions(i, 'type'))}"},
		{"condition", "aggregate", "{'x': items.all(i, items.all(j, condition(i, 'no').status == ''))}"},
		{"generations", "aggregate", again("observedGeneration(object, items)")},
		{"reflection", "status", again("reflectStatus({'status': object.spec})")},
		{"pods", "status", again("podRequirements({'spec': {'containers': object.spec.list.map(l, {'name': l.s})}})")},
		{"pod dependencies", "dependencies",
			"lists.range(200).map(i, podDependencies(object, {'spec': {'imagePullSecrets': object.spec.list.map(l, {'name': " +
				"l.s})}})).flatten()"},
		{"references", "dependencies",
			"lists.range(200).map(i, references(object, 'v1', 'Secret', object.spec.list.values('s'))).flatten()"},
		{"requests", "status", again("maxRequirements([{'resourceRequest': object.spec.fields.transformMap(k, v, v.x)}])")},
		{"quantities", "health", "lists.range(100000).all(i, quantity('0.' + string(i)) >= 0.0)"},
		{"a long quantity", "health", "quantity(object.spec.text) >= 0.0"},
		{"sums of quantities", "status", again("lists.range(1000).map(i, '0.' + string(i)).sumQuantities()")},
		{"sums of long quantities", "status", again("['1e-9', '9e17', '1Ei', '0.000000001'].sumQuantities()")},
		{"deep", "status", again("object.spec.deep")},
		{"flatten in a loop", "status", "object.spec.fields.transformMap(k, v, object.spec.list.flatten())"},
		{"many objects are compared", "health",
			"lists.range(100).exists(i, object.spec == object.spec && object.spec.list == [i])"},
		{"optional macros", "health", "object.?spec" + strings.Repeat(".optMap(v, v)", 60) + ".hasValue()"},
		{"binds", "health", strings.Repeat("cel.bind(a, lists.range(20), ", 20) + "true" + strings.Repeat(")", 20) +
			" && lists.range(1000).all(i, cel.bind(b, object.spec.list, b.size() < 0))"},
	} {
		t.Run(tt.name, func(t *testing.T) { s.run(t, tt.field, tt.expression) })
	}
}

// parts are the parts of the expressions of TestRandomExpressions. %[1]s is a list and %[2]s is an
// object.
var parts = map[string][]string{
	"list": {
		"object.spec.list", "items", "statuses", "statuses.values('conditions').flatten()", "lists.range(3000)",
		"%[1]s.map(x, x)", "(%[1]s + %[1]s)",
		"%[1]s.map(x, %[1]s)", "%[1]s.values('m')", "%[1]s.map(x, %[2]s)", "joinConditions(%[1]s)",
		"latestConditions(%[1]s, 'type')",
		"aggregateConditions(%[2]s, %[1]s, [])",
		"podDependencies(object, %[2]s)", "%[1]s.flatten()", "[%[2]s, %[2]s]",
		"references(object, 'v1', 'K', %[1]s.values('s').map(x, string(x)))", "%[1]s.distinct()",
	},
	"object": {
		"object", "object.spec", "object.spec.fields", "{}", "merge([%[2]s, %[2]s])", "merge(%[1]s)", "omitEmpty(%[2]s)",
		"sumFields(%[1]s)", "pick(%[2]s, ['spec', 'fields'])",
		"reflectStatus(%[2]s)", "{'a': %[2]s, 'b': %[1]s}", "%[1]s.sums(['n', 'm.x'])", "condition(%[2]s, 'T1')",
		"podRequirements(%[2]s)", "maxRequirements(%[1]s)",
		"cel.bind(y, %[2]s, {'a': y, 'b': y})", "%[2]s.transformMap(k, v, %[1]s)",
		"{?'a': %[1]s.values('n').min(), ?'b': %[1]s.values('s').max()}",
		"{'n': %[1]s.values('n').sum(), 'o': observedGeneration(%[2]s, %[1]s)}",
	},
}

var expressions = flag.Int("customization.expressions", 150, "random expressions to evaluate")

// TestRandomExpressions checks that the time and memory of random expressions are bounded.
func TestRandomExpressions(t *testing.T) {
	s := newScene(t)
	var expression func(r *rapid.T, kind string, depth int) string
	expression = func(r *rapid.T, kind string, depth int) string {
		part := parts[kind][rapid.IntRange(0, len(parts[kind])-1).Draw(r, kind)]
		if !strings.Contains(part, "%") {
			return part
		}
		if depth == 0 {
			return parts[kind][0]
		}
		args := [2]string{}
		for i, of := range []string{"list", "object"} {
			if strings.Contains(part, fmt.Sprintf("%%[%d]s", i+1)) {
				args[i] = expression(r, of, depth-1)
			}
		}
		text := strings.ReplaceAll(part, "%[1]s", args[0])
		return strings.ReplaceAll(text, "%[2]s", args[1])
	}
	generator := rapid.Custom(func(r *rapid.T) string { return expression(r, "object", 5) })
	answers := 0
	for seed := range *expressions {
		text := generator.Example(seed)
		if len(text) > 16<<10 {
			continue
		}
		if s.run(t, "aggregate", text) {
			answers++
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, text)
		}
	}
	if t.Logf("%d of %d have an answer", answers, *expressions); answers < *expressions/10 {
		t.Error("too few expressions have an answer: the test shows nothing")
	}
}

// TestStatusesOfManyClusters checks that the limits allow the statuses of as many clusters as the
// documentation states.
func TestStatusesOfManyClusters(t *testing.T) {
	i := samples(t)
	var conditions []map[string]string
	for _, kind := range []string{"Ready", "Synced", "Healthy", "Stalled"} {
		conditions = append(
			conditions,
			map[string]string{"type": kind, "status": "True", "reason": "ReconciliationSucceeded",
				"lastTransitionTime": "2026-01-01T00:00:00Z",
				"message":            "Applied revision: main@sha1:0647aea75b85755411b007a290b9321668370be5"},
		)
	}
	status, err := json.Marshal(map[string]any{"conditions": conditions, "replicas": 2, "readyReplicas": 2,
		"updateRevision": "r"})
	if err != nil {
		t.Fatal(err)
	}
	var items []interpreter.AggregatedStatusItem
	for n := range 2_000 {
		items = append(items, interpreter.AggregatedStatusItem{ClusterName: fmt.Sprint("cluster", n),
			Status: &runtime.RawExtension{Raw: status}})
	}
	for _, kind := range [][2]string{
		{"apps.example.com/v1", "Workload"}, {"source.example.com/v1", "Source"}, {"x.upbound.example.com/v1", "VPC"},
		{"batch.example.com/v1", "TrainJob"},
	} {
		object := parsed(t, "metadata: {name: t}")
		object.SetAPIVersion(kind[0])
		object.SetKind(kind[1])
		if got, err := i.AggregateStatus(t.Context(), object, items); err != nil || got.Object["status"] == nil {
			t.Errorf("%s: %v", kind[1], err)
		}
	}
}

// TestAllocations checks that an evaluation allocates little, and the same for each cluster.
func TestAllocations(t *testing.T) {
	i := samples(t)
	workload := parsed(
		t,
		"metadata: {name: t, generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, readyReplicas: 2}",
	)
	workload.SetAPIVersion("apps.example.com/v1")
	workload.SetKind("Workload")
	aggregate := func(clusters int) float64 {
		items := slices.Repeat([]interpreter.AggregatedStatusItem{{ClusterName: "c", Status: &runtime.RawExtension{
			Raw: []byte(`{"replicas":2,"readyReplicas":2,"observedGeneration":1}`)}}}, clusters)
		return testing.AllocsPerRun(10, func() { _, _ = i.AggregateStatus(t.Context(), workload, items) })
	}
	health := testing.AllocsPerRun(100, func() { _, _ = i.Health(t.Context(), workload) })
	each := (aggregate(1000) - aggregate(100)) / 900
	t.Logf("InterpretHealth: %.0f; AggregateStatus: %.0f for each cluster", health, each)
	if health > 150 || each > 35 {
		t.Error("too many allocations")
	}
}

// BenchmarkInterpret measures the time and the allocations of an answer.
func BenchmarkInterpret(b *testing.B) {
	i := samples(b)
	workload := parsed(
		b,
		`metadata: {name: t, generation: 1}, spec: {replicas: 2, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}},
		status: {observedGeneration: 1, readyReplicas: 2}`,
	)
	workload.SetAPIVersion("apps.example.com/v1")
	workload.SetKind("Workload")
	for _, clusters := range []int{1, 100, 1000} {
		var statuses []interpreter.AggregatedStatusItem
		for n := range clusters {
			statuses = append(statuses, interpreter.AggregatedStatusItem{ClusterName: fmt.Sprint(n),
				Status: &runtime.RawExtension{
					Raw: []byte(
						`{"replicas":2,"readyReplicas":2,"generation":1,"observedGeneration":1,"resourceTemplateGeneration":1}`,
					)}})
		}
		b.Run(fmt.Sprintf("AggregateStatus/clusters=%d", clusters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.AggregateStatus(b.Context(), workload, statuses); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("InterpretHealth", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if healthy, err := i.Health(b.Context(), workload); err != nil || !healthy {
				b.Fatal(healthy, err)
			}
		}
	})
	b.Run("InterpretReplica", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := i.Replicas(b.Context(), workload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
