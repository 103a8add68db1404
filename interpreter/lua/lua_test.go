// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

var things = schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Thing"}

// all has a script for each operation.
var all = []string{
	"retention", `function Retain(desired, observed)
  desired.spec.address = observed.spec.address
  return desired
end`,
	"replicaResource", `local kube = require("kube")
function GetReplicas(object)
  return object.spec.replicas, kube.accuratePodRequirements(object.spec.template)
end`,
	"componentResource", `function GetComponents(object)
  return {{name = "main", replicas = object.spec.replicas, replicaRequirements = {resourceRequest = {cpu = "1"}}}}
end`,
	"replicaRevision", `function ReviseReplica(object, replicas)
  object.spec.replicas = replicas
  return object
end`,
	"statusReflection", `function ReflectStatus(object)
  return {ready = object.status.ready}
end`,
	"statusAggregation", `function AggregateStatus(object, items)
  object.status = {ready = 0}
  for _, item in ipairs(items) do
    if item.status ~= nil then object.status.ready = object.status.ready + item.status.ready end
  end
  return object
end`,
	"healthInterpretation", `function InterpretHealth(object)
  return object.status.ready == object.spec.replicas
end`,
	"dependencyInterpretation", `local kube = require("kube")
function GetDependencies(object)
  return kube.getPodDependencies(object.spec.template, object.metadata.namespace)
end`,
}

const spec = `"spec":{"replicas":3,"labels":{},"list":[],"id":9007199254740993,"template":{"metadata":{},"spec":{"serviceAccountName":"bot",
	"containers":[{"name":"a","resources":{"requests":{"cpu":"100m"}}}],"volumes":[{"name":"v","emptyDir":{}}]}}},"status":{"ready":2}`

func TestOperations(t *testing.T) {
	i := load(t, all...)
	ctx, object := t.Context(), thing(t, spec)
	before := object.DeepCopy()

	replicas, requirements, err := i.Replicas(ctx, object)
	if err != nil || replicas != 3 || requirements.ResourceRequest.Cpu().String() != "100m" {
		t.Errorf("replicas: %v %v %v", replicas, requirements, err)
	}
	components, err := i.Components(ctx, object)
	if err != nil || len(components) != 1 || components[0].Replicas != 3 ||
		components[0].ReplicaRequirements.ResourceRequest.Cpu().String() != "1" {
		t.Errorf("components: %v %v", components, err)
	}
	revised, err := i.Revise(ctx, object, 5)
	want := object.DeepCopy()
	want.Object["spec"].(map[string]any)["replicas"] = int64(5)
	if d := cmp.Diff(want, revised); d != "" || err != nil {
		t.Errorf("revised: %v\n%s", err, d)
	}
	observed := thing(t, `"spec":{"address":"10.0.0.1"}`)
	retained, err := i.Retain(ctx, object, observed)
	want = object.DeepCopy()
	want.Object["spec"].(map[string]any)["address"] = "10.0.0.1"
	if d := cmp.Diff(want, retained); d != "" || err != nil {
		t.Errorf("retained: %v\n%s", err, d)
	}
	aggregated, err := i.AggregateStatus(ctx, object, []interpreter.AggregatedStatusItem{
		{ClusterName: "a", Status: &runtime.RawExtension{Raw: []byte(`{"ready":2}`)}}, {ClusterName: "b"},
		{ClusterName: "c", Status: &runtime.RawExtension{Raw: []byte(`{"ready":7}`)}},
	})
	want = object.DeepCopy()
	want.Object["status"] = map[string]any{"ready": int64(9)}
	if d := cmp.Diff(want, aggregated); d != "" || err != nil {
		t.Errorf("aggregated: %v\n%s", err, d)
	}
	dependencies, err := i.Dependencies(ctx, object)
	if d := cmp.Diff([]interpreter.DependentObjectReference{{APIVersion: "v1", Kind: "ServiceAccount", Namespace: "prod",
		Name: "bot"}}, dependencies); d != "" ||
		err != nil {
		t.Errorf("dependencies: %v\n%s", err, d)
	}
	status, err := i.Status(ctx, object)
	if err != nil || string(status.Raw) != `{"ready":2}` {
		t.Errorf("status: %s %v", status, err)
	}
	if healthy, err := i.Health(ctx, object); err != nil || healthy {
		t.Errorf("health: %v %v", healthy, err)
	}
	if _, err := i.Prune(ctx, object); !errors.Is(err, interpreter.ErrNotInterpreted) {
		t.Errorf("prune: %v", err)
	}
	if d := cmp.Diff(before, object); d != "" {
		t.Errorf("the object of the query has changed:\n%s", d)
	}
}

func TestKindsAndOperations(t *testing.T) {
	other := strings.Replace(string(document("others", all[:2]...).Text), "kind: Thing", "kind: Other", 1)
	i, err := lua.New(lua.Options{}, document("things", all[2:]...), lua.File{Text: []byte(other)})
	if err != nil {
		t.Fatal(err)
	}
	others := things
	others.Kind = "Other"
	if d := cmp.Diff([]schema.GroupVersionKind{others, things}, i.Kinds()); d != "" {
		t.Error(d)
	}
	for _, operation := range v1alpha1.InterpreterOperations() {
		if got, want := i.Supports(things, operation), operation != v1alpha1.InterpreterOperationRetain &&
			operation != v1alpha1.InterpreterOperationPrune; got != want {
			t.Errorf("%s of things: %v, want %v", operation, got, want)
		}
		if got, want := i.Supports(others, operation), operation == v1alpha1.InterpreterOperationRetain; got != want {
			t.Errorf("%s of others: %v, want %v", operation, got, want)
		}
	}
	if _, err := i.Health(t.Context(), thingOf(t, "Unknown")); !errors.Is(err, interpreter.ErrNotInterpreted) {
		t.Errorf("unknown kind: %v", err)
	}
	var bad *interpreter.RequestError
	if _, err := i.Interpret(t.Context(), interpreter.Query{Operation: "Guess"}); !errors.As(err, &bad) {
		t.Errorf("unknown operation: %v", err)
	}
}

func thingOf(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	u := thing(t, "")
	u.SetKind(kind)
	return u
}

func TestServedAsWebhook(t *testing.T) {
	i := load(t, all...)
	q := interpreter.Query{Operation: v1alpha1.InterpreterOperationInterpretHealth, Object: thing(t, spec)}
	request, err := q.Request(interpreter.ProtocolInterpret, "1")
	if err != nil {
		t.Fatal(err)
	}
	if r := i.Handle(t.Context(), *request); !r.Successful || r.Healthy == nil || *r.Healthy {
		t.Errorf("%+v", r)
	}
	request.Object.Raw = []byte(`{`)
	if r := i.Handle(t.Context(), *request); r.Successful || r.Status.Code != http.StatusBadRequest {
		t.Errorf("%+v", r.Status)
	}
	request.Operation = v1alpha1.InterpreterOperationPrune
	if r := i.Handle(t.Context(), *request); r.Successful || r.Status.Code != http.StatusNotImplemented {
		t.Errorf("%+v", r.Status)
	}
}

// TestSeveralCustomizations checks that the first customization by name with a script decides.
// Dependencies of all customizations count.
func TestSeveralCustomizations(t *testing.T) {
	depends := func(names ...string) string {
		s := "function GetDependencies()\n  return {"
		for _, name := range names {
			s += `{apiVersion = "v1", kind = "Secret", namespace = "prod", name = "` + name + `"}, `
		}
		return s + "}\nend"
	}
	i, err := lua.New(
		lua.Options{},
		document(
			"c",
			"healthInterpretation",
			"function InterpretHealth() return false end",
			"dependencyInterpretation",
			depends("z", "m"),
		),
		document("b", "healthInterpretation", "function InterpretHealth() return true end"),
		document("a", "healthInterpretation", "", "dependencyInterpretation", depends("m", "b")),
	)
	if err != nil {
		t.Fatal(err)
	}
	if healthy, err := i.Health(t.Context(), thing(t, "")); !healthy || err != nil {
		t.Errorf("health: %v %v, want that of b", healthy, err)
	}
	dependencies, err := i.Dependencies(t.Context(), thing(t, ""))
	var names []string
	for _, d := range dependencies {
		names = append(names, d.Name)
	}
	if d := cmp.Diff([]string{"b", "m", "z"}, names); d != "" || err != nil {
		t.Errorf("dependencies: %v\n%s", err, d)
	}
}

// TestSetReplacesAllOrNothing checks that a customization that cannot be loaded changes nothing.
func TestSetReplacesAllOrNothing(t *testing.T) {
	i := load(t, "healthInterpretation", "function InterpretHealth() return true end")
	if err := i.Set(t.Context(), document("bad", "healthInterpretation", "function")); err == nil {
		t.Fatal("no error")
	}
	if healthy, err := i.Health(t.Context(), thing(t, "")); !healthy || err != nil {
		t.Errorf("before: %v %v", healthy, err)
	}
	if err := i.Set(t.Context(),
		document("good", "healthInterpretation", "function InterpretHealth() return false end")); err != nil {
		t.Fatal(err)
	}
	if healthy, err := i.Health(t.Context(), thing(t, "")); healthy || err != nil {
		t.Errorf("after: %v %v", healthy, err)
	}
	if err := i.Set(t.Context()); err != nil || len(i.Kinds()) != 0 {
		t.Errorf("without documents: %v, kinds %v", err, i.Kinds())
	}
}

// TestListsOfCustomizations checks that lists are accepted, because kubectl get writes lists.
func TestListsOfCustomizations(t *testing.T) {
	item := strings.ReplaceAll(strings.TrimSpace(string(document("a", all[0:2]...).Text)), "\n", "\n  ")
	for _, kind := range []string{"List", "ResourceInterpreterCustomizationList"} {
		i, err := lua.New(
			lua.Options{},
			lua.File{Text: []byte("apiVersion: v1\nkind: " + kind + "\nmetadata: {resourceVersion: \"\"}\nitems:\n- " + item)},
		)
		if err != nil || len(i.Kinds()) != 1 {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestDependenciesWithSelectors(t *testing.T) {
	i := load(t, "dependencyInterpretation", `function GetDependencies()
  return {{apiVersion = "v1", kind = "Secret", namespace = "prod", labelSelector = {matchLabels = {app = "a"}}}}
end`)
	got, err := i.Dependencies(t.Context(), thing(t, ""))
	want := []interpreter.DependentObjectReference{{APIVersion: "v1", Kind: "Secret", Namespace: "prod",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

// TestStatusesOfManyClusters checks that the default limits are enough for the statuses of 4,000
// clusters.
func TestStatusesOfManyClusters(t *testing.T) {
	i, err := lua.New(
		lua.Options{Timeout: time.Minute},
		document("things", "statusAggregation", `function AggregateStatus(object, items)
  object.status = {replicas = 0, ready = 0, messages = {}}
  for _, item in ipairs(items) do
    if item.status ~= nil then
      object.status.replicas = object.status.replicas + item.status.replicas
      for _, condition in ipairs(item.status.conditions) do
        if condition.type == "Available" and condition.status == "True" then object.status.ready = object.status.ready + 1 end
        table.insert(object.status.messages, item.clusterName .. ": " .. condition.message)
      end
    end
  end
  return object
end`),
	)
	if err != nil {
		t.Fatal(err)
	}
	const clusters = 4000
	status := &runtime.RawExtension{
		Raw: []byte(
			`{"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2,"observedGeneration":7,"conditions":[
		{"type":"Available","status":"True","lastUpdateTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"MinimumReplicasAvailable","message":"has minimum availability."},
		{"type":"Progressing","status":"True","lastUpdateTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"NewReplicaSetAvailable","message":"has successfully progressed."}]}`,
		),
	}
	var items []interpreter.AggregatedStatusItem
	for n := range clusters {
		items = append(
			items,
			interpreter.AggregatedStatusItem{
				ClusterName: fmt.Sprintf("cluster-%d", n),
				Status:      status,
				Applied:     true,
				Health:      v1alpha1.ResourceHealthy,
			},
		)
	}
	object, err := i.AggregateStatus(t.Context(), thing(t, spec), items)
	if err != nil {
		t.Fatal(err)
	}
	got := object.Object["status"].(map[string]any)
	if got["replicas"] != int64(2*clusters) || got["ready"] != int64(clusters) ||
		len(got["messages"].([]any)) != 2*clusters {
		t.Errorf("replicas %v, ready %v", got["replicas"], got["ready"])
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, options := range []lua.Options{{MaxSteps: -1}, {MaxMemory: -1}, {Timeout: -1}} {
		if _, err := lua.New(options); err == nil || !strings.Contains(err.Error(), "must not be negative") {
			t.Errorf("%+v: %v", options, err)
		}
	}
}
