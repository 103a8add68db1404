// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/agent/internal/ignore"
)

const (
	manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {a/b: "1", c~d: "1"}}
spec:
  replicas: 2
  template: {spec: {containers: [{name: log, image: "log:1", ports: [{containerPort: 80}]}, {name: web, image: "web:1"}]}}
  args: [x, v, z]
`
	// live has one container more, and everything is another than in the manifest.
	live = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {a/b: live, c~d: live}
  managedFields: [{manager: %s, operation: Apply, fieldsType: FieldsV1, fieldsV1: %s}]
spec:
  replicas: 7
  template: {spec: {containers: [{name: more, image: more}, {name: log, image: "log:live", ports: [{containerPort: 80, protocol: TCP}]}, {name: web, image: "web:live", tty: true}]}}
  args: [x, q]
`
	owned = `{"f:metadata":{"f:labels":{"f:a/b":{}}},"f:spec":{"f:replicas":{},"f:args":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return parseText(text)
}

// parseText panics when text is no object.
func parseText(text string) *unstructured.Unstructured {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		panic(err)
	}
	return obj
}

func liveFor(t *testing.T, manager, fields string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, strings.Replace(strings.Replace(live, "%s", manager, 1), "%s", fields, 1))
}

func ours(manager string) bool { return manager == "ours" }

// TestApply: what is left out of the manifest, or set to what is on the cluster.
func TestApply(t *testing.T) {
	const all = "all"
	for _, tt := range []struct {
		name   string
		field  workv1.IgnoreField
		fields string // of the agent
		want   string // a JSON merge patch on the manifest
	}{
		{"nothing of ours", workv1.IgnoreField{JSONPaths: []string{".spec.replicas"}}, `{}`, `{"spec":{"replicas":null}}`},
		{"what is ours is kept as it is", workv1.IgnoreField{JSONPaths: []string{".spec.replicas"}}, owned, `{"spec":{"replicas":7}}`},
		{"braces", workv1.IgnoreField{JSONPaths: []string{"{$.spec.replicas}"}}, owned, `{"spec":{"replicas":7}}`},
		{"a pointer", workv1.IgnoreField{JSONPointers: []string{"/spec/replicas"}}, `{}`, `{"spec":{"replicas":null}}`},
		{"an escaped one", workv1.IgnoreField{JSONPointers: []string{"/metadata/labels/a~1b", "/metadata/labels/c~0d"}}, owned, `{"metadata":{"labels":{"a/b":"live","c~d":null}}}`},
		{"jq", workv1.IgnoreField{JQPathExpressions: []string{".spec | .replicas, .nothing"}}, `{}`, `{"spec":{"replicas":null}}`},
		{"an item by its name, ours", workv1.IgnoreField{JSONPaths: []string{`.spec.template.spec.containers[?(@.name=="web")].image`}}, owned,
			`{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:1","ports":[{"containerPort":80}]},{"name":"web","image":"web:live"}]}}}}`},
		{"an item by its name, not ours", workv1.IgnoreField{JQPathExpressions: []string{`.spec.template.spec.containers[] | select(.name == "log") | .image`}}, owned,
			`{"spec":{"template":{"spec":{"containers":[{"name":"log","ports":[{"containerPort":80}]},{"name":"web","image":"web:1"}]}}}}`},
		{"of an item of ours only our part", workv1.IgnoreField{JSONPaths: []string{`.spec.template.spec.containers[1]`}}, owned,
			`{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:1","ports":[{"containerPort":80}]},{"name":"web","image":"web:live"}]}}}}`},
		{"items that are left out one after the other", workv1.IgnoreField{JSONPointers: []string{"/spec/args/0", "/spec/args/1"}}, `{}`, `{"spec":{"args":["z"]}}`},
		{"an atomic list of ours", workv1.IgnoreField{JSONPaths: []string{".spec.args"}}, owned, `{"spec":{"args":["x","q"]}}`},
		{"a path that leads nowhere", workv1.IgnoreField{JSONPaths: []string{".spec.nothing.at.all"}, JSONPointers: []string{"/spec/nothing", "/spec/args/9"}, JQPathExpressions: []string{".spec.nothing"}}, owned, `{}`},
		{"changed by nobody", workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".spec.replicas"}}, owned, `{}`},
		{"changed by somebody", workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".spec.replicas"}}, `{"f:spec":{"f:args":{}}}`, `{"spec":{"replicas":null}}`},
		{"not there yet", workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".spec.template.spec.containers[0].ports[0].containerPort"}}, `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"log\"}":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}`, `{}`},
		{all, workv1.IgnoreField{JSONPaths: []string{".spec"}}, `{}`, `{"spec":null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.field.Condition == "" {
				tt.field.Condition = workv1.IgnoreFieldsConditionOnSpokePresent
			}
			m := parse(t, manifest)
			got, err := ignore.Apply(t.Context(), m, liveFor(t, "ours", tt.fields), []workv1.IgnoreField{tt.field}, ours)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(patched(t, tt.want), got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(parse(t, manifest).Object, m.Object); diff != "" {
				t.Errorf("the manifest has changed: %s", diff)
			}
			// An object that does not exist gets everything.
			if got, err := ignore.Apply(t.Context(), m, nil, []workv1.IgnoreField{tt.field}, ours); err != nil || !cmp.Equal(got.Object, m.Object) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// patched is the manifest after a merge patch.
func patched(t *testing.T, patch string) map[string]any {
	t.Helper()
	obj := parse(t, manifest)
	var p map[string]any
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		t.Fatal(err)
	}
	var merge func(into, from map[string]any)
	merge = func(into, from map[string]any) {
		for name, value := range from {
			sub, isObject := value.(map[string]any)
			switch {
			case value == nil:
				delete(into, name)
			case isObject:
				merge(into[name].(map[string]any), sub)
			default:
				into[name] = value
			}
		}
	}
	merge(obj.Object, p)
	raw, err := obj.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(raw)).Object
}

// TestGoneFromManifest: who takes a field out of the manifest as he has it ignored wants it left as it is.
func TestGoneFromManifest(t *testing.T) {
	m := parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: web}]}}}}")
	for _, tt := range []struct {
		name      string
		condition workv1.IgnoreFieldsCondition
		fields    string
		want      any // replicas, and labels
	}{
		{"ours", workv1.IgnoreFieldsConditionOnSpokePresent, owned, []any{int64(7), map[string]any{"a/b": "live"}}},
		{"not ours", workv1.IgnoreFieldsConditionOnSpokePresent, `{"f:spec":{"f:args":{}}}`, []any{nil, nil}},
		{"changed by nobody", workv1.IgnoreFieldsConditionOnSpokeChange, owned, []any{nil, nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := workv1.IgnoreField{Condition: tt.condition, JSONPointers: []string{"/spec/replicas"}, JQPathExpressions: []string{".metadata.labels"},
				JSONPaths: []string{`.spec.template.spec.containers[?(@.name=="web")].image`}}
			got, err := ignore.Apply(t.Context(), m, liveFor(t, "ours", tt.fields), []workv1.IgnoreField{rule}, ours)
			if err != nil {
				t.Fatal(err)
			}
			spec := got.Object["spec"].(map[string]any)
			if diff := cmp.Diff(tt.want, []any{spec["replicas"], got.Object["metadata"].(map[string]any)["labels"]}); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(m.Object["spec"].(map[string]any)["template"], spec["template"]); diff != "" {
				t.Errorf("items of lists: %s", diff)
			}
		})
	}
}

// manyTimes multiplies all that is in a manifest with itself.
var manyTimes = "select(any(" + strings.Repeat("..|", 12) + "..; . == \"nothing\"))"

// TestJQ: an expression names fields. What makes values could make one that is too large for the process in one step.
func TestJQ(t *testing.T) {
	m := parse(t, manifest)
	apply := func(text string) error {
		_, err := ignore.Apply(t.Context(), m, nil, []workv1.IgnoreField{{JQPathExpressions: []string{text}}}, ours)
		return err
	}
	for _, good := range []string{
		".spec.replicas", `.metadata.labels["a/b"]`, ".spec.args[]", ".spec.args[-1]", ".spec?.nothing[]?", ".spec | (.replicas, .args[0])",
		`.spec.template.spec.containers[] | select(.name == "web" and (.image | startswith("web:"))) | .image`, "..|.image?",
		`.spec.template.spec.containers[] | select(any(.ports[]?; .containerPort >= 80)) | .image`, ".spec.nothing // .spec.replicas",
		`.spec | if .replicas > 1 then .replicas else .args end`, `first(.spec.template.spec.containers[] | select(.image | contains("web")))`,
		`.spec.template.spec.containers[] | select(.image | test("^(web|log):[0-9]+$")) | .image`, `.spec | select(has("replicas")) | .replicas`, "limit(1; .spec.args[])",
	} {
		if err := apply(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		`.spec | select("x" * 2147483646 == "")`, `select(reduce range(60) as $i ("x"; . + .) == "")`, "select([range(1e12)] == [])", "select([limit(1e12; repeat(1))] == [])",
		`select("\(.)\(.)" == "")`, "select(tojson|tojson|tojson == 1)", "def f: f; f", ".. as $x | .spec", ".spec |= 1", "@base64", "[..]", "{a: .}", "input", "env", "$ENV",
		"getpath([\"spec\"])", "to_entries", "try .spec", "label $x | break $x", "foreach .[] as $x (0; 1)", ".spec.args[(range(9))]", "paths", "recurse(.[])",
		"select(contains(.))", `select(.spec.args | contains(["x"]))`, "select(test(.spec.name))", `.spec["\(1)"]`, strings.Repeat(".spec|", 700) + ".",
		"if [1] then . else . end", "-(.a + 1)", "select(1 + 1)", "limit([1]; .spec)",
	} {
		if err := apply(bad); err == nil || !strings.Contains(err.Error(), "not allowed") && !strings.Contains(err.Error(), "bytes, more than 4096") && !strings.Contains(err.Error(), "unexpected") {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

// TestErrors: a path that cannot be used names itself, also for an object that does not exist.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		field      workv1.IgnoreField
		want       string
	}{
		{"a condition", "condition", workv1.IgnoreField{Condition: "Always", JSONPaths: []string{".spec"}}, `"Always" is unknown: write OnSpokePresent or OnSpokeChange`},
		{"a JSON path", ".spec[", workv1.IgnoreField{JSONPaths: []string{".spec["}}, "unterminated array"},
		{"two", ".a}{.b", workv1.IgnoreField{JSONPaths: []string{".a}{.b"}}, "no single path"},
		{"a text", "{'x'}", workv1.IgnoreField{JSONPaths: []string{"{'x'}"}}, "no part of a path"},
		{"the whole", "{$}", workv1.IgnoreField{JSONPaths: []string{"{$}"}}, "CreateOnly"},
		{"the whole by pointer", "", workv1.IgnoreField{JSONPointers: []string{""}}, "CreateOnly"},
		{"the name", "/metadata/name", workv1.IgnoreField{JSONPointers: []string{"/metadata/name"}}, "name and namespace"},
		{"the kind", ".kind", workv1.IgnoreField{JQPathExpressions: []string{".kind"}}, "kind cannot be left out"},
		{"a relative pointer", "spec", workv1.IgnoreField{JSONPointers: []string{"spec"}}, "begins with /"},
		{"an escape", "/a~2", workv1.IgnoreField{JSONPointers: []string{"/a~2"}}, "~0"},
		{"an escape below what is not there", "/nothing/a~2", workv1.IgnoreField{JSONPointers: []string{"/nothing/a~2"}}, "~0"},
		{"an index", "/spec/args/-", workv1.IgnoreField{JSONPointers: []string{"/spec/args/-"}}, "numbered from 0"},
		{"jq that is none", ".a |", workv1.IgnoreField{JQPathExpressions: []string{".a |"}}, "unexpected"},
		{"jq that is no path", "1 + 1", workv1.IgnoreField{JQPathExpressions: []string{"1 + 1"}}, "operator + is not allowed"},
		{"jq that is another value", "true", workv1.IgnoreField{JQPathExpressions: []string{"true"}}, "invalid path"},
		{"jq that fails", `error("no")`, workv1.IgnoreField{JQPathExpressions: []string{`error("no")`}}, "error/1 is not allowed"},
		{"jq that takes too long", manyTimes, workv1.IgnoreField{JQPathExpressions: []string{manyTimes}}, "longer than 250ms"},
		{"jq with a slice", ".spec.args[1:]", workv1.IgnoreField{JQPathExpressions: []string{".spec.args[1:]"}}, "slices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, obj := range []*unstructured.Unstructured{nil, liveFor(t, "ours", owned)} {
				_, err := ignore.Apply(t.Context(), parse(t, manifest), obj, []workv1.IgnoreField{tt.field}, ours)
				var path *ignore.Error
				if !errors.As(err, &path) || path.Path != tt.path || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		})
	}
}

// TestJSONPath: the places that each form of a path leads to are those of the values that package jsonpath finds; here by
// what is left.
func TestJSONPath(t *testing.T) {
	const object = `{apiVersion: v1, kind: X, metadata: {name: x}, l: [{id: a, v: 1}, {id: b, v: 2}, {id: c, v: 3}], m: {a: 1, b: {v: 4}}}`
	for path, want := range map[string]string{
		".l[0]":                    `[{"id":"b","v":2},{"id":"c","v":3}]`,
		".l[-1]":                   `[{"id":"a","v":1},{"id":"b","v":2}]`,
		".l[1:]":                   `[{"id":"a","v":1}]`,
		".l[:2]":                   `[{"id":"c","v":3}]`,
		".l[0:3:2]":                `[{"id":"b","v":2}]`,
		".l[0,2]":                  `[{"id":"b","v":2}]`,
		".l[*].id":                 `[{"v":1},{"v":2},{"v":3}]`,
		".l..id":                   `[{"v":1},{"v":2},{"v":3}]`,
		`.l[?(@.id=="a")]`:         `[{"id":"b","v":2},{"id":"c","v":3}]`,
		`.l[?(@.id!="a")]`:         `[{"id":"a","v":1}]`,
		".l[?(@.v>1)].v":           `[{"id":"a","v":1},{"id":"b"},{"id":"c"}]`,
		".l[?(@.v>=2)].v":          `[{"id":"a","v":1},{"id":"b"},{"id":"c"}]`,
		".l[?(@.v<2)].v":           `[{"id":"a"},{"id":"b","v":2},{"id":"c","v":3}]`,
		".l[?(@.v<=2)].v":          `[{"id":"a"},{"id":"b"},{"id":"c","v":3}]`,
		".l[?(@.w)].v":             `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".l[?(@.v)].v":             `[{"id":"a"},{"id":"b"},{"id":"c"}]`,
		`.l[?(@.id>"b")].v`:        `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c"}]`,
		`.l[?(@.id>1)].v`:          `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".l['id']":                 `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".m.a.b":                   `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".m[0]":                    `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		"['l'][0]['v']":            `[{"id":"a"},{"id":"b","v":2},{"id":"c","v":3}]`,
		".l[?(@.v==1.0)].id":       `[{"v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".l[?(@.missing==true)]":   `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".l[?(@.missing<1)]":       `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		"$.l[?(@.id == 'c')].v":    `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c"}]`,
		"{.l[0].v}":                `[{"id":"a"},{"id":"b","v":2},{"id":"c","v":3}]`,
		".m['a','b'].v":            `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
		".nothing[?(@.id=='c')].v": `[{"id":"a","v":1},{"id":"b","v":2},{"id":"c","v":3}]`,
	} {
		t.Run(path, func(t *testing.T) {
			m := parse(t, object)
			got, err := ignore.Apply(t.Context(), m, m, []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: []string{path}}}, ours)
			if err != nil {
				t.Fatal(err)
			}
			if raw, _ := json.Marshal(got.Object["l"]); string(raw) != want {
				t.Errorf("%s, want %s", raw, want)
			}
		})
	}
}
