// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/customization"
)

// documented returns the customization of the package documentation.
func documented(t *testing.T) *customization.Interpreter {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "//\tapiVersion: ")
	document, _, ends := strings.Cut("//\tapiVersion: "+after, "//\n")
	if !found || !ends {
		t.Fatal("doc.go has no customization")
	}
	i, err := customization.New(customization.File{Text: []byte(strings.ReplaceAll(document, "//\t", ""))})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestDocumentedCustomization checks that the status reflected on each cluster has the fields that
// the aggregation reads.
func TestDocumentedCustomization(t *testing.T) {
	i := documented(t)
	object := parsed(t, `metadata: {name: web, generation: 3}, spec: {replicas: 2}`)
	object.SetKind("Workload")
	var items []interpreter.AggregatedStatusItem
	for n, cluster := range []string{"a", "b"} {
		onCluster := object.DeepCopy()
		onCluster.SetGeneration(9)
		onCluster.SetAnnotations(map[string]string{"resourcetemplate.karmada.io/generation": "3"})
		onCluster.Object["status"] = map[string]any{"replicas": int64(2), "readyReplicas": int64(n),
			"phase": "Healthy", "observedGeneration": "9"} // Argo Rollouts has a text
		status, err := i.Status(t.Context(), onCluster)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, interpreter.AggregatedStatusItem{ClusterName: cluster, Status: status})
	}
	got, err := i.AggregateStatus(t.Context(), object, items)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"replicas": int64(4), "readyReplicas": int64(1), "observedGeneration": int64(3)}
	if d := cmp.Diff(want, got.Object["status"]); d != "" {
		t.Error(d)
	}
}

// TestInvalidPodTemplateIsAnError checks that an object which is not a pod template is an error, and is not read
// as a template without fields.
func TestInvalidPodTemplateIsAnError(t *testing.T) {
	object := parsed(t, `metadata: {name: t, namespace: ns}, spec: {replicas: 1, template: {metadata: {labels: {a: b}},
		spec: {serviceAccountName: sa, containers: [{name: c}]}}}`)
	const no = "a pod template has spec.containers, the argument has "
	for expression, want := range map[string]string{
		"podRequirements(object.spec.template)":                                      "",
		"podRequirements(object.spec.template.spec)":                                 no + "containers",
		"podDependencies(object, object.spec.template.spec)":                         no + "containers",
		"podDependencies(object, object.spec)":                                       no + "replicas",
		"podDependencies(object, object)":                                            no + "spec.replicas",
		"podRequirements({'template': object.spec.template})":                        no + "template",
		"podRequirements({'spec': {'template': object.spec.template}})":              no + "spec.template",
		"podRequirements({'spec': {'containers': [], 'newer': 1}})":                  "",
		"podRequirements({'spec': {'nodeSelector': {'a': 'b'}}})":                    "",
		"podRequirements({'metadata': {}})":                                          "",
		"podRequirements({})":                                                        "",
		"podRequirements(object.spec.?no)":                                           "",
		"podDependencies(object, {'apiVersion': 'v1', 'kind': 'Pod', 'status': {}})": "",
	} {
		i, err := withSpec("  health: |\n    " + expression + ".size() >= 0")
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		_, err = i.Health(t.Context(), object)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", expression, err, want)
		}
	}
}

// TestImpossiblePathIsAnError checks that a path which no object can have is an error. A constant path fails
// when it is loaded.
func TestImpossiblePathIsAnError(t *testing.T) {
	object := parsed(t, `metadata: {name: t, labels: {a: 'spec..x'}}, spec: {list: [{name: a}], a-b_c: 1}`)
	for _, path := range []string{"list[0].name", ".status.phase", "status.", "a..b", "", "metadata.annotations.a/b"} {
		for _, call := range []string{
			"pick(object.spec, [PATH])", "pick(object, ['spec', PATH])", "reflectStatus(object, [PATH])",
			"{'x': [object].values(PATH)}", "[object].sums(['spec.a', PATH])",
		} {
			quoted := strconv.Quote(path)
			_, err := withSpec("  status: |\n    " + strings.ReplaceAll(call, "PATH", quoted))
			want := "the path " + quoted + " has no field: write names with dots between them"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: %v, want %s", call, quoted, err, want)
			}
		}
	}
	for expression, want := range map[string]string{
		"pick(object, [object.metadata.labels.a])":   "a path has no field",
		"pick(object, ['spec.' + 'list[0]'])":        "a path has no field",
		"pick(object, ['spec.a-b_c', 'status'])":     "",
		"{'x': [object].values('spec.' + 'a-b_c.')}": "a path has no field",
	} {
		i, err := withSpec("  status: |\n    " + expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		_, err = i.Status(t.Context(), object)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", expression, err, want)
		}
	}
}

// TestTransitionTimeOfEarlierStatusIsNotReused checks that the transition time of an earlier status is not used for another
// status.
func TestTransitionTimeOfEarlierStatusIsNotReused(t *testing.T) {
	i, err := withSpec("  aggregate: \"{'conditions': aggregateConditions(object, items, [])}\"")
	if err != nil {
		t.Fatal(err)
	}
	const early, late = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
	for _, tt := range []struct{ name, status, time, want string }{
		{"the same status", "True", late, early},
		{"the same status without a time", "True", "", early},
		{"another status", "False", late, late},
		{"another status without a time", "False", "", ""},
	} {
		object := parsed(t, "metadata: {name: t}, status: {conditions: [{type: Ready, status: 'True', lastTransitionTime: '"+
			early+"'}]}")
		c := map[string]string{"type": "Ready", "status": tt.status}
		if tt.time != "" {
			c["lastTransitionTime"] = tt.time
		}
		raw, err := json.Marshal(map[string]any{"conditions": []any{c}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := i.AggregateStatus(t.Context(), object, []interpreter.AggregatedStatusItem{
			{ClusterName: "a", Status: &runtime.RawExtension{Raw: raw}}})
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := unstructured.NestedSlice(got.Object, "status", "conditions")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if at, _ := list[0].(map[string]any)["lastTransitionTime"].(string); at != tt.want {
			t.Errorf("%s: lastTransitionTime %q, want %q", tt.name, at, tt.want)
		}
	}
}

// TestErrorsDoNotQuoteValues checks that errors do not contain values of an object, because a value may
// be secret.
func TestErrorsDoNotQuoteValues(t *testing.T) {
	object := parsed(t, `metadata: {name: t, namespace: ns}, spec: {s: s3cr3t, num: 987654321, f: 98765.4321, list: [1],
		re: 's3cr3t(', long: '987654321e1000', m: {s3cr3t: 1}}`)
	for _, expression := range []string{
		"integer(object.spec.s, 1)", "int(object.spec.s)", "quantity(object.spec.s)", "quantity(object.spec.long)",
		"podRequirements({'spec': {'containers': [{'resources': {'requests': {'cpu': object.spec.long}}}]}})",
		"double(object.spec.s)",
		"duration(object.spec.s)", "timestamp(object.spec.s)", "uint(object.spec.s)", "bool(object.spec.s)",
		"object.spec.list[object.spec.num]", "object.spec.list[object.spec.f]", "object.spec.m[object.spec.s + 'x']",
		"object.spec.s.matches(object.spec.re)", "'a'.matches(object.spec.re)", "object.spec.s.charAt(object.spec.num)",
		"object.spec.s.substring(object.spec.num)", "object.spec.list.slice(0, object.spec.num)",
		"lists.range(object.spec.num)", "'%d'.format([object.spec.s])", "object.spec.s.format([])",
		"[object.spec.s].sum()", "[object.spec.s].sumQuantities()", "sumFields([object.spec.s])", "[object.spec.s, 1].min()",
		"math.bitShiftLeft(1, 0 - object.spec.num)", "timestamp('2026-01-01T00:00:00Z').getHours(object.spec.s)",
		"maxRequirements([{'resourceRequest': {'cpu': object.spec.s}}])",
		"podRequirements({'spec': {'containers': object.spec.num}})",
		"podRequirements({'spec': {'containers': [{'resources': {'requests': {'cpu': object.spec.s}}}]}})",
		"references(object, 'v1', 'Secret', [object.spec.num])", "['s3cr' + '3t', object.spec.num].join(',')",
		"{object.spec.s: 1}.transformMapEntry(k, v, {'x': v, ?'x': object.spec.?s})",
		"[1, 2].transformMapEntry(i, v, {object.spec.s: v})",
		"[?object.spec.s]", "object.spec.s.no", "object.spec.s > 1", "object.spec.num + object.spec.s",
		"condition({'status': {'conditions': [object.spec.s]}}, '').status.no",
	} {
		i, err := withSpec("  health: |\n    dyn(" + expression + ") == dyn('x')")
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		_, err = i.Health(t.Context(), object)
		if err == nil {
			t.Logf("%s has an answer", expression)
			continue
		}
		t.Logf("%s: %v", expression, err)
		for _, secret := range []string{"s3cr3t", "987654321", "98765.4321"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s quotes a value: %v", expression, err)
			}
		}
	}
	for spec, operation := range map[string]interpreter.Operation{
		"  components: \"[{'name': 'a', 'replicas': object.spec.f}]\"":                                                     "InterpretComponent",
		"  components: \"[{'name': 'a', 'replicas': object.spec.s}]\"":                                                     "InterpretComponent",
		"  components: \"[object.spec.s]\"":                                                                                "InterpretComponent",
		"  replicas: 0 - object.spec.num":                                                                                  "InterpretReplica",
		"  replicas: object.spec.f":                                                                                        "InterpretReplica",
		"  replicas: 1\n  requirements: \"{'resourceRequest': {'cpu': object.spec.s}}\"":                                   "InterpretReplica",
		"  dependencies: \"[{'apiVersion': 'v1', 'kind': 'A', 'name': object.spec.num}]\"":                                 "InterpretDependency",
		"  dependencies: \"[{'apiVersion': 'v1', 'kind': 'A', 'labelSelector': {'matchLabels': {'a': object.spec.re}}}]\"": "InterpretDependency",
	} {
		i, err := withSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.Interpret(t.Context(), interpreter.Query{Operation: operation, Object: object})
		if err == nil {
			t.Errorf("%s has an answer", spec)
			continue
		}
		t.Log(err)
		for _, secret := range []string{"s3cr3t", "987654321", "98765.4321"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s quotes a value: %v", spec, err)
			}
		}
	}
}
