// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization/kinds"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestAggregateThousandClusters checks that the limits of an evaluation allow the statuses of as
// many clusters as the documentation states. It checks one kind of each group.
func TestAggregateThousandClusters(t *testing.T) {
	const clusters = 1_000
	var conditions []string
	for _, kind := range []string{"Ready", "Available", "Progressing", "Other"} {
		conditions = append(conditions, `{"type":"`+kind+`","status":"True","reason":"Succeeded",`+
			`"message":"Applied revision: main@sha1:0647aea75b85755411b007a290b9321668370be5",`+
			`"lastTransitionTime":"2026-01-01T00:00:00Z"}`)
	}
	list := "[" + strings.Join(conditions, ",") + "]"
	status := runtime.RawExtension{Raw: []byte(`{"replicas":3,"readyReplicas":3,"phase":"Healthy","generation":2,` +
		`"observedGeneration":2,"resourceTemplateGeneration":2,"conditions":` + list + `,` +
		`"parents":[{"parentRef":{"name":"x"},"controllerName":"c","conditions":` + list + `}]}`)}
	items := make([]interpreter.AggregatedStatusItem, clusters)
	for n := range items {
		items[n] = interpreter.AggregatedStatusItem{ClusterName: fmt.Sprint("cluster-", n), Status: &status}
	}
	all := kinds.New()
	asked := map[string]bool{}
	for _, gvk := range all.Kinds() {
		if asked[gvk.Group] || !all.Supports(gvk, v1alpha1.InterpreterOperationAggregateStatus) {
			continue
		}
		asked[gvk.Group] = true
		object := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "a", "generation": int64(2)}, "spec": map[string]any{},
		}}
		object.SetGroupVersionKind(gvk)
		if _, err := all.AggregateStatus(t.Context(), object, items); err != nil {
			t.Errorf("%s: %v", gvk, err)
		}
	}
	if len(asked) < 15 {
		t.Errorf("kinds of only %d groups are aggregated", len(asked))
	}
}

// TestGatewayOfManyClusters checks that the limits allow the listeners of a Gateway and the parents
// of a route, as documented.
func TestGatewayOfManyClusters(t *testing.T) {
	const clusters, parts = 200, 10
	conditions := func(kinds ...string) string {
		for i, kind := range kinds {
			kinds[i] = "{type: " + kind + ", status: 'True', reason: Accepted, message: " + strings.Repeat("m", 60) +
				", lastTransitionTime: '2026-01-01T00:00:00Z', observedGeneration: 1}"
		}
		return "conditions: [" + strings.Join(kinds, ", ") + "]"
	}
	var listeners, refs, states, parents []string
	for i := range parts {
		listeners = append(listeners, fmt.Sprintf("{name: l%d, port: %d, protocol: HTTP}", i, 8000+i))
		states = append(states, fmt.Sprintf("{name: l%d, attachedRoutes: 1, supportedKinds: [{kind: HTTPRoute}], %s}",
			i, conditions("Accepted", "Programmed", "ResolvedRefs")))
		refs = append(refs, fmt.Sprintf("{name: l%d}", i))
		parents = append(parents, fmt.Sprintf("{parentRef: {name: l%d}, controllerName: example.com/c, %s}",
			i, conditions("Accepted", "ResolvedRefs")))
	}
	for kind, texts := range map[string][2]string{
		"gateway.networking.k8s.io/v1 Gateway": {
			"spec: {listeners: [" + strings.Join(listeners, ", ") + "]}",
			conditions("Accepted", "Programmed") + ", listeners: [" + strings.Join(states, ", ") + "]",
		},
		"gateway.networking.k8s.io/v1 HTTPRoute": {
			"spec: {parentRefs: [" + strings.Join(refs, ", ") + "]}", "parents: [" + strings.Join(parents, ", ") + "]",
		},
	} {
		raw, err := yaml.YAMLToJSON([]byte("{generation: 1, resourceTemplateGeneration: 1, " + texts[1] + "}"))
		if err != nil {
			t.Fatal(err)
		}
		items := make([]interpreter.AggregatedStatusItem, clusters)
		for n := range items {
			items[n] = interpreter.AggregatedStatusItem{
				ClusterName: fmt.Sprint("cluster-", n), Status: &runtime.RawExtension{Raw: raw},
			}
		}
		got, err := kinds.New().AggregateStatus(t.Context(), object(t, kind, 1, texts[0]), items)
		if err != nil {
			t.Error(err)
			continue
		}
		if healthy, err := kinds.New().Health(t.Context(), got); err != nil || !healthy {
			t.Errorf("%s: healthy is %t, %v", kind, healthy, err)
		}
	}
}
