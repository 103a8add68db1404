// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
)

// object returns an object with the name c, the namespace ns and a generation.
func object(t testing.TB, kind string, generation int, rest string) *unstructured.Unstructured {
	t.Helper()
	apiVersion, kind, _ := strings.Cut(kind, " ")
	text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: c, namespace: ns, generation: %d}, %s}",
		apiVersion, kind, generation, rest)
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// aggregated returns an object with the status that is aggregated from clusters a, b and so on.
func aggregated(t testing.TB, u *unstructured.Unstructured, statuses ...string) *unstructured.Unstructured {
	t.Helper()
	var items []interpreter.AggregatedStatusItem
	for i, status := range statuses {
		raw, err := yaml.YAMLToJSON([]byte(status))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, interpreter.AggregatedStatusItem{
			ClusterName: string(rune('a' + i)), Status: &runtime.RawExtension{Raw: raw},
		})
	}
	got, err := kinds.New().AggregateStatus(t.Context(), u, items)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestEarlierGenerationIsNotHealthy checks that a condition of an earlier generation, on the
// cluster or of the object, does not count as True for the latest generation.
func TestEarlierGenerationIsNotHealthy(t *testing.T) {
	const (
		notObserved = "{generation: 3, resourceTemplateGeneration: 3, conditions: [{type: TYPE, status: 'True'}, " +
			"{type: Synced, status: 'True', observedGeneration: 2}, {type: TYPE2, status: 'True', observedGeneration: 2}]}"
		notApplied = "{generation: 3, resourceTemplateGeneration: 2, conditions: [{type: TYPE, status: 'True'}, " +
			"{type: Synced, status: 'True'}, {type: TYPE2, status: 'True'}]}"
		current = "{generation: 3, resourceTemplateGeneration: 3, conditions: [{type: TYPE, status: 'True'}, " +
			"{type: Synced, status: 'True', observedGeneration: 3}, {type: TYPE2, status: 'True', observedGeneration: 3}]}"
	)
	for _, tt := range []struct {
		kind, spec, ready string
		observes          bool
	}{
		{"cert-manager.io/v1 Certificate", "{secretName: s, issuerRef: {name: i}}", "Ready", true},
		{"cert-manager.io/v1 Issuer", "{}", "Ready", true},
		{"gateway.networking.k8s.io/v1 GatewayClass", "{controllerName: x/y}", "Accepted", true},
		{"keda.sh/v1alpha1 ScaledObject", "{scaleTargetRef: {name: d}}", "Ready", false}, // its conditions have no generation
		{"keda.sh/v1alpha1 ScaledJob", "{}", "Ready", false},
		{"s3.aws.upbound.io/v1beta1 Bucket", "{forProvider: {region: r}}", "Ready", true},
	} {
		statuses := map[string]bool{notApplied: false, current: true}
		if tt.observes {
			statuses[notObserved] = false
		}
		for status, want := range statuses {
			if !tt.observes || tt.ready == "Ready" && strings.HasPrefix(tt.kind, "s3.") {
				status = strings.NewReplacer("TYPE2", "Other", "TYPE", tt.ready).Replace(status)
			} else {
				status = strings.NewReplacer("TYPE2", tt.ready, "TYPE", "Other").Replace(status)
			}
			for _, others := range [][]string{nil, {strings.ReplaceAll(status, "generation: 2", "generation: 3")}} {
				got := aggregated(t, object(t, tt.kind, 3, "spec: "+tt.spec), append(others, status)...)
				if healthy, err := kinds.New().Health(t.Context(), got); err != nil || healthy != want {
					raw, _ := json.Marshal(got.Object["status"])
					t.Errorf("%s with %s: healthy is %t, %v: %s", tt.kind, status, healthy, err, raw)
				}
			}
		}
		if !tt.observes {
			continue
		}
		// The aggregated status is of generation 3.
		ready := strings.NewReplacer("TYPE2", tt.ready, "TYPE", "Other").Replace(current)
		got := aggregated(t, object(t, tt.kind, 3, "spec: "+tt.spec), ready, ready)
		got.SetGeneration(4)
		if healthy, err := kinds.New().Health(t.Context(), got); err != nil || healthy {
			t.Errorf("%s with a status of the generation before: healthy is %t, %v", tt.kind, healthy, err)
		}
	}
}

// TestBadConditionIsNotHidden checks conditions that are bad when they are True. If a cluster
// reports such a condition, the object's condition is not False, and its message is kept.
func TestBadConditionIsNotHidden(t *testing.T) {
	const broken = "{type: BAD, status: 'True', reason: R, message: the disk is broken}"
	for _, tt := range []struct{ kind, bad, want string }{
		{"example.com/v1 Widget", "Degraded", "True"}, // OpenShift operators have it
		{"example.com/v1 Widget", "OutOfSpace", "Unknown"},
		{"example.com/v1 Widget", "NotReady", "Unknown"},
		{"apps.kruise.io/v1alpha1 UnitedDeployment", "SubsetFailure", "True"}, // as in Karmada
		{"s3.aws.upbound.io/v1beta1 Bucket", "Degraded", "Unknown"},
	} {
		for _, good := range []string{
			"{conditions: [{type: Ready, status: 'True'}]}",
			"{conditions: [{type: Ready, status: 'True'}, {type: BAD, status: 'False', message: fine}]}",
		} {
			statuses := make([]string, 12) // more than a message names
			for i := range statuses {
				statuses[i] = strings.ReplaceAll(good, "BAD", tt.bad)
			}
			statuses[11] = strings.ReplaceAll("{conditions: [{type: Ready, status: 'True'}, "+broken+"]}", "BAD", tt.bad)
			got := aggregated(t, object(t, tt.kind, 1, "spec: {}"), statuses...)
			found := false
			list, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
			for _, c := range list {
				c := c.(map[string]any)
				found = found || c["type"] == tt.bad && c["status"] == tt.want && c["reason"] == "R" &&
					strings.HasPrefix(fmt.Sprint(c["message"]), "l: the disk is broken")
			}
			if !found {
				t.Errorf("%s: %s is broken on cluster l, and the object has %v", tt.kind, tt.bad, list)
			}
		}
	}
}

// TestStatusOfOneCluster checks that the aggregated status of one cluster is the cluster's status,
// with the generation of the object.
func TestStatusOfOneCluster(t *testing.T) {
	got := aggregated(t, object(t, "example.com/v1 Widget", 3, "spec: {}"), `{phase: X, generation: 9,
		resourceTemplateGeneration: 3, observedGeneration: 9, conditions: [
		{type: Ready, status: 'True', observedGeneration: 9, message: fine, severity: Info, lastTransitionTime: '2026-01-01T00:00:00Z'},
		{type: Available, status: 'False', reason: R}]}`)
	raw, err := json.Marshal(got.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"fine","observedGeneration":3,` +
		`"severity":"Info","status":"True","type":"Ready"},{"reason":"R","status":"False","type":"Available"}],` +
		`"observedGeneration":3,"phase":"X"}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

// TestRayServiceReplicas checks that worker groups have no negative replicas. Their sum is the
// requested number.
func TestRayServiceReplicas(t *testing.T) {
	for groups := 1; groups <= 5; groups++ {
		for each := range 3 {
			specs := make([]string, groups)
			for i := range specs {
				specs[i] = fmt.Sprintf("{groupName: g%d, replicas: %d}", i, each)
			}
			u := object(t, "ray.io/v1 RayService", 1, "spec: {rayClusterConfig: {headGroupSpec: {template: {spec: {}}}, "+
				"workerGroupSpecs: ["+strings.Join(specs, ", ")+"]}}")
			for replicas := range int32(10) {
				got, err := kinds.New().Revise(t.Context(), u, replicas)
				if err != nil {
					t.Fatal(err)
				}
				list, _, _ := unstructured.NestedSlice(got.Object, "spec", "rayClusterConfig", "workerGroupSpecs")
				sum, least := int64(0), int64(0)
				for _, g := range list {
					n := g.(map[string]any)["replicas"].(int64)
					sum, least = sum+n, min(least, n)
				}
				if least < 0 || sum != max(0, int64(replicas)-1) {
					t.Errorf("%d groups of %d, %d replicas: %v", groups, each, replicas, list)
				}
			}
		}
	}
}
