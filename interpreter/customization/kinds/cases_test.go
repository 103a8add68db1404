// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// projects are the files in testdata that this test uses.
var projects = []string{
	"argoproj.io-rollouts", "cert-manager.io", "crossplane.io", "default", "gateway.networking.k8s.io", "keda.sh",
	"serving.knative.dev",
}

// TestCloudNativeProjects runs the cases of Argo Rollouts, cert-manager, Crossplane, Gateway API,
// KEDA and Knative, and of the default.
func TestCloudNativeProjects(t *testing.T) {
	all := kinds.New()
	for _, name := range projects {
		t.Run(name, func(t *testing.T) { interpretertest.RunFile(t, all, "testdata/"+name+".yaml") })
	}
}

// TestEveryAnswerHasACase checks that each kind with a case has a case for each operation that it
// supports.
func TestEveryAnswerHasACase(t *testing.T) {
	all := kinds.New()
	asked := map[string]map[interpreter.Operation]bool{}
	objects := map[string]*unstructured.Unstructured{}
	for _, name := range projects {
		cases, err := interpretertest.Load("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			u := &unstructured.Unstructured{Object: c.Object}
			kind := u.GroupVersionKind().GroupKind().String()
			if name == "crossplane.io" && u.GroupVersionKind().Group != "pkg.crossplane.io" &&
				u.GroupVersionKind().Group != "apiextensions.crossplane.io" {
				kind = "any of Crossplane"
			}
			if asked[kind] == nil {
				asked[kind] = map[interpreter.Operation]bool{}
			}
			asked[kind][c.Operation], objects[kind] = true, u
		}
	}
	if len(asked) < 25 {
		t.Errorf("%d kinds have cases", len(asked))
	}
	inherited := []interpreter.Operation{
		v1alpha1.InterpreterOperationInterpretStatus,
		v1alpha1.InterpreterOperationAggregateStatus,
		v1alpha1.InterpreterOperationRetain,
		v1alpha1.InterpreterOperationInterpretDependency,
		v1alpha1.InterpreterOperationInterpretHealth,
	}
	for _, kind := range slices.Sorted(maps.Keys(asked)) {
		for _, operation := range []interpreter.Operation{
			v1alpha1.InterpreterOperationInterpretReplica, v1alpha1.InterpreterOperationInterpretComponent,
			v1alpha1.InterpreterOperationReviseReplica, v1alpha1.InterpreterOperationRetain,
			v1alpha1.InterpreterOperationAggregateStatus, v1alpha1.InterpreterOperationInterpretDependency,
			v1alpha1.InterpreterOperationInterpretStatus, v1alpha1.InterpreterOperationInterpretHealth,
			v1alpha1.InterpreterOperationPrune,
		} {
			gvk := objects[kind].GroupVersionKind()
			fromPattern := slices.Contains(inherited, operation) && len(asked[kind]) < 4
			if all.Supports(gvk, operation) && !asked[kind][operation] && !fromPattern {
				t.Errorf("%s of %s has no case", operation, kind)
			}
		}
	}
}

// TestManyClusters checks that the statuses of 50 clusters are aggregated within the limits of an
// evaluation, also with the race detector.
func TestManyClusters(t *testing.T) {
	all := kinds.New()
	for _, name := range projects {
		cases, err := interpretertest.Load("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if c.Operation != v1alpha1.InterpreterOperationAggregateStatus || c.Want.Error != "" {
				continue
			}
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				object := &unstructured.Unstructured{Object: plain(t, c.Object)}
				statuses := make([]interpreter.AggregatedStatusItem, 50)
				for i := range statuses {
					statuses[i] = c.Statuses[i%len(c.Statuses)]
					statuses[i].ClusterName = fmt.Sprintf("cluster-%d", i)
				}
				if _, err := all.AggregateStatus(t.Context(), object, statuses); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// plain returns an object with the number types that an API server's JSON decodes to.
func plain(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

// TestDefaultAgreesWithKstatus checks the default with random statuses. It is healthy if kstatus is
// Current, and not healthy if kstatus is InProgress, Failed or Terminating. It returns no answer
// only if kstatus is Current without one of its conditions.
func TestDefaultAgreesWithKstatus(t *testing.T) {
	all := kinds.New()
	counts := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		}}
		if rapid.Bool().Draw(t, "has a generation") {
			object.SetGeneration(rapid.Int64Range(1, 3).Draw(t, "generation"))
		}
		if rapid.IntRange(0, 9).Draw(t, "deleted") == 0 {
			unstructuredSet(t, object, "2026-03-01T00:00:00Z", "metadata", "deletionTimestamp")
		}
		if rapid.Bool().Draw(t, "has an observed generation") {
			unstructuredSet(
				t,
				object,
				rapid.Int64Range(1, 3).Draw(t, "observed generation"),
				"status",
				"observedGeneration",
			)
		}
		known := false
		var conditions []any
		for range rapid.IntRange(0, 4).Draw(t, "conditions") {
			kind := rapid.SampledFrom([]string{"Ready", "Ready", "Reconciling", "Stalled", "Stalled", "Available", ""}).
				Draw(t, "type")
			value := rapid.SampledFrom([]string{"True", "True", "True", "False", "Unknown", "Maybe", ""}).
				Draw(t, "status")
			c := map[string]any{}
			if kind != "" {
				c["type"] = kind
			}
			if value != "" {
				c["status"] = value
			}
			conditions = append(conditions, c)
			known = known || kind == "Reconciling" || kind == "Stalled" ||
				kind == "Ready" && slices.Contains([]string{"True", "False", "Unknown"}, value)
		}
		if conditions != nil || rapid.Bool().Draw(t, "has conditions") {
			unstructuredSet(t, object, conditions, "status", "conditions")
		}
		computed, err := status.Compute(object)
		if err != nil {
			t.Fatal(err)
		}
		current := computed.Status == status.CurrentStatus
		healthy, err := all.Health(t.Context(), object)
		switch {
		case errors.Is(err, interpreter.ErrNotInterpreted):
			if !current || known {
				t.Fatalf("there is no answer, and kstatus is %s", computed.Status)
			}
			counts["none"]++
		case err != nil:
			t.Fatal(err)
		case healthy != current || healthy && !known:
			t.Fatalf("healthy is %t, and kstatus is %s", healthy, computed.Status)
		default:
			counts[string(computed.Status)]++
		}
	})
	for _, answer := range []string{"none", "Current", "InProgress", "Failed", "Terminating"} {
		if counts[answer] == 0 {
			t.Errorf("no object had the answer %s: %v", answer, counts)
		}
	}
}

func unstructuredSet(t *rapid.T, object *unstructured.Unstructured, value any, path ...string) {
	if list, ok := value.([]any); ok {
		value = runtime.DeepCopyJSONValue(list)
	}
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}
