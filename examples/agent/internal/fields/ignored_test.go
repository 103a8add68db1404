// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/fields"
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
	// live has more fields than the manifest.
	live = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {a/b: live}
  managedFields: [{manager: ours, time: "2026-01-01T00:00:00Z"}]
spec:
  replicas: 7
  template: {spec: {containers: [{name: more, image: more}, {name: web, image: "web:live"}]}}
status: {time: now}
`
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return parseText(text)
}

// parseText parses an object. It panics if the text is not an object.
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

// find returns the options that one rule results in.
func find(
	t *testing.T, m, live *unstructured.Unstructured, field workv1.IgnoreField,
) (appliedwork.ObjectOptions, error) {
	t.Helper()
	var options appliedwork.ObjectOptions
	err := fields.Ignored(t.Context(), m, live, []workv1.IgnoreField{field}, &options)
	return options, err
}

// TestFind checks the pointers that each kind of rule results in.
func TestFind(t *testing.T) {
	const container = "/spec/template/spec/containers"
	for _, tt := range []struct {
		name  string
		field workv1.IgnoreField
		want  []string
	}{
		{"a JSON path", workv1.IgnoreField{JSONPaths: []string{".spec.replicas"}}, []string{"/spec/replicas"}},
		{"braces", workv1.IgnoreField{JSONPaths: []string{"{$.spec.replicas}"}}, []string{"/spec/replicas"}},
		{"a pointer", workv1.IgnoreField{JSONPointers: []string{"/spec/replicas", "/spec/nothing"}},
			[]string{"/spec/replicas", "/spec/nothing"}},
		{"escapes", workv1.IgnoreField{JQPathExpressions: []string{".metadata.labels[]"}},
			[]string{"/metadata/labels/a~1b", "/metadata/labels/c~0d"}},
		{"jq", workv1.IgnoreField{JQPathExpressions: []string{".spec | .replicas, .nothing"}}, []string{"/spec/replicas"}},
		{"an item by a JSON path",
			workv1.IgnoreField{JSONPaths: []string{`.spec.template.spec.containers[?(@.name=="web")].image`}},
			[]string{container + "/1/image"}},
		{"an item by jq", workv1.IgnoreField{JQPathExpressions: []string{
			`.spec.template.spec.containers[] | select(.name == "log") | .image`,
		}}, []string{container + "/0/image"}},
		{"the last item", workv1.IgnoreField{JQPathExpressions: []string{".spec.args[-1]"}}, []string{"/spec/args/2"}},
		{"nothing", workv1.IgnoreField{JSONPaths: []string{".spec.nothing.at.all"},
			JQPathExpressions: []string{".spec.nothing"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, manifest)
			for _, obj := range []*unstructured.Unstructured{nil, m} {
				got, err := find(t, m, obj, tt.field)
				if diff := cmp.Diff(appliedwork.ObjectOptions{IgnoreFields: tt.want}, got); err != nil || diff != "" {
					t.Error(err, diff)
				}
			}
			tt.field.Condition = workv1.IgnoreFieldsConditionOnSpokeChange
			got, err := find(t, m, m, tt.field)
			if diff := cmp.Diff(appliedwork.ObjectOptions{IgnoreChangedFields: tt.want}, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
			if diff := cmp.Diff(parse(t, manifest).Object, m.Object); diff != "" {
				t.Errorf("the manifest has changed: %s", diff)
			}
		})
	}
}

// TestFieldRemovedFromManifest checks that expressions find fields of the live object that the manifest no
// longer has. List items may have other positions there.
func TestFieldRemovedFromManifest(t *testing.T) {
	m := parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: "+
		"[{name: web}]}}}}")
	rule := workv1.IgnoreField{JSONPaths: []string{".spec.replicas",
		`.spec.template.spec.containers[?(@.name=="web")].image`, "..time"},
		JQPathExpressions: []string{".metadata.labels", ".spec.template"}}
	for condition, want := range map[workv1.IgnoreFieldsCondition]appliedwork.ObjectOptions{
		workv1.IgnoreFieldsConditionOnSpokePresent: {IgnoreFields: []string{"/spec/template", "/spec/replicas",
			"/metadata/labels"}},
		workv1.IgnoreFieldsConditionOnSpokeChange: {IgnoreChangedFields: []string{"/spec/template"}},
	} {
		rule.Condition = condition
		if needs := fields.NeedsLive([]workv1.IgnoreField{rule}); needs != (condition == workv1.IgnoreFieldsConditionOnSpokePresent) {
			t.Errorf("%s: NeedsLive is %t", condition, needs)
		}
		got, err := find(t, m, parse(t, live), rule)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

// manyTimes is a jq expression with a very large number of intermediate results.
var manyTimes = "select(any(" + strings.Repeat("..|", 12) + "..; . == \"nothing\"))"

// TestJQ checks that an expression can only select fields. An operator that makes values could make
// a value too large for the process in one step.
func TestJQ(t *testing.T) {
	m := parse(t, manifest)
	apply := func(text string) error {
		_, err := find(t, m, nil, workv1.IgnoreField{JQPathExpressions: []string{text}})
		return err
	}
	for _, good := range []string{
		".spec.replicas", `.metadata.labels["a/b"]`, ".spec.args[]", ".spec.args[-1]", ".spec?.nothing[]?",
		".spec | (.replicas, .args[0])",
		`.spec.template.spec.containers[] | select(.name == "web" and (.image | startswith("web:"))) | .image`, "..|.image?",
		`.spec.template.spec.containers[] | select(any(.ports[]?; .containerPort >= 80)) | .image`,
		".spec.nothing // .spec.replicas",
		`.spec | if .replicas > 1 then .replicas else .args end`,
		`first(.spec.template.spec.containers[] | select(.image | contains("web")))`,
		`.spec.template.spec.containers[] | select(.image | test("^(web|log):[0-9]+$")) | .image`,
		`.spec | select(has("replicas")) | .replicas`, "limit(1; .spec.args[])",
	} {
		if err := apply(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		`.spec | select("x" * 2147483646 == "")`, `select(reduce range(60) as $i ("x"; . + .) == "")`,
		"select([range(1e12)] == [])", "select([limit(1e12; repeat(1))] == [])",
		`select("\(.)\(.)" == "")`, "select(tojson|tojson|tojson == 1)", "def f: f; f", ".. as $x | .spec", ".spec |= 1",
		"@base64", "[..]", "{a: .}", "input", "env", "$ENV",
		"getpath([\"spec\"])", "to_entries", "try .spec", "label $x | break $x", "foreach .[] as $x (0; 1)",
		".spec.args[(range(9))]", "paths", "recurse(.[])",
		"select(contains(.))", `select(.spec.args | contains(["x"]))`, "select(test(.spec.name))", `.spec["\(1)"]`,
		strings.Repeat(".spec|", 700) + ".",
		"if [1] then . else . end", "-(.a + 1)", "select(1 + 1)", "limit([1]; .spec)",
	} {
		if err := apply(bad); err == nil || !strings.Contains(err.Error(), "not allowed") &&
			!strings.Contains(err.Error(), "bytes are more than the limit of 4096") &&
			!strings.Contains(err.Error(), "unexpected") {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

// TestErrors checks that the error for an unusable path names the path, also for an object that
// does not exist.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		field      workv1.IgnoreField
		want       string
	}{
		{"a condition", "condition", workv1.IgnoreField{Condition: "Always", JSONPaths: []string{".spec"}},
			`"Always" is unknown: write OnSpokePresent or OnSpokeChange`},
		{"a JSON path", ".spec[", workv1.IgnoreField{JSONPaths: []string{".spec["}}, "unterminated array"},
		{"two", ".a}{.b", workv1.IgnoreField{JSONPaths: []string{".a}{.b"}}, "not a single path"},
		{"a text", "{'x'}", workv1.IgnoreField{JSONPaths: []string{"{'x'}"}}, "not supported in a path"},
		{"the whole", "{$}", workv1.IgnoreField{JSONPaths: []string{"{$}"}}, "CreateOnly"},
		{"the whole by pointer", "", workv1.IgnoreField{JSONPointers: []string{""}}, "CreateOnly"},
		{"the name", "/metadata/name", workv1.IgnoreField{JSONPointers: []string{"/metadata/name"}},
			"the name or the namespace"},
		{"the kind", ".kind", workv1.IgnoreField{JQPathExpressions: []string{".kind"}}, "apiVersion or kind"},
		{"a relative pointer", "spec", workv1.IgnoreField{JSONPointers: []string{"spec"}}, "begin with /"},
		{"an escape", "/a~2", workv1.IgnoreField{JSONPointers: []string{"/a~2"}}, "~0"},
		{"an escape below what is not there", "/nothing/a~2", workv1.IgnoreField{JSONPointers: []string{"/nothing/a~2"}},
			"~0"},
		{"an index", "/spec/args/-", workv1.IgnoreField{JSONPointers: []string{"/spec/args/-"}}, "index of a list item"},
		{"jq that is none", ".a |", workv1.IgnoreField{JQPathExpressions: []string{".a |"}}, "unexpected"},
		{"jq that is no path", "1 + 1", workv1.IgnoreField{JQPathExpressions: []string{"1 + 1"}},
			"operator + is not allowed"},
		{"jq that is another value", "true", workv1.IgnoreField{JQPathExpressions: []string{"true"}}, "invalid path"},
		{"jq that fails", `error("no")`, workv1.IgnoreField{JQPathExpressions: []string{`error("no")`}},
			"error/1 is not allowed"},
		{"jq that takes too long", manyTimes, workv1.IgnoreField{JQPathExpressions: []string{manyTimes}},
			"longer than 250ms"},
		{"jq with a slice", ".spec.args[1:]", workv1.IgnoreField{JQPathExpressions: []string{".spec.args[1:]"}}, "slices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, obj := range []*unstructured.Unstructured{nil, parse(t, live)} {
				_, err := find(t, parse(t, manifest), obj, tt.field)
				var path *fields.Error
				if !errors.As(err, &path) || path.Path != tt.path || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		})
	}
}

// TestJSONPath checks that each form of a path leads to the values that package jsonpath finds. It
// compares the fields that are left without them.
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
			got, err := find(t, m, m, workv1.IgnoreField{Condition: workv1.IgnoreFieldsConditionOnSpokePresent,
				JSONPaths: []string{path}})
			if err != nil {
				t.Fatal(err)
			}
			if raw, _ := json.Marshal(left(m.Object, "", got.IgnoreFields).(map[string]any)["l"]); string(raw) != want {
				t.Errorf("%s, want %s", raw, want)
			}
		})
	}
}

// left returns the value at a place without the fields that the pointers lead to.
func left(value any, at string, pointers []string) any {
	switch value := value.(type) {
	case map[string]any:
		rest := map[string]any{}
		for name, sub := range value {
			if place := at + "/" + name; !slices.Contains(pointers, place) {
				rest[name] = left(sub, place, pointers)
			}
		}
		return rest
	case []any:
		rest := []any{}
		for i, sub := range value {
			if place := fmt.Sprint(at, "/", i); !slices.Contains(pointers, place) {
				rest = append(rest, left(sub, place, pointers))
			}
		}
		return rest
	}
	return value
}
