// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/testing/hostiletest"
)

// TestHostileExpressions checks that no expression panics, runs for long or allocates much memory.
func TestHostileExpressions(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for _, tt := range []struct {
		name   string
		field  workv1.IgnoreField
		object string
		want   string
	}{
		{"empty", workv1.IgnoreField{JQPathExpressions: []string{""}}, `{}`, "empty expression"},
		{"comment only", workv1.IgnoreField{JQPathExpressions: []string{"# .spec"}}, `{}`, "empty expression"},
		{"empty parentheses", workv1.IgnoreField{JQPathExpressions: []string{"()"}}, `{}`, "unexpected"},
		{"counted repeats", workv1.IgnoreField{
			JQPathExpressions: []string{`select(.x | test("((((a?){10}){10}){10}){1}((((a?){10}){10}){10}){1}b$"))`},
		}, `{"x":"` + strings.Repeat("a", 100_000) + `"}`, "regular expression"},
		{"a large program", workv1.IgnoreField{JQPathExpressions: []string{`select(.x | test("(` +
			strings.Repeat("ab", 1500) + `){1000}"))`}}, `{"x":"a"}`, "regular expression"},
		{"a long text", workv1.IgnoreField{JQPathExpressions: []string{`select(.x | test("(a?){100}b$"))`}},
			`{"x":"` + strings.Repeat("a", 1_000_000) + `"}`, "regular expression"},
		{"many tests", workv1.IgnoreField{JQPathExpressions: []string{`select(all(.x[]; test("(a?){100}b$") | not)) | .x`}},
			`{"x":[` + strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 10_000) + `""]}`, ""},
		{"a deep object, JSON path", workv1.IgnoreField{JSONPaths: []string{"..a"}}, `{"x":` + deep + `}`, "steps"},
		{"a deep object, jq", workv1.IgnoreField{JQPathExpressions: []string{".x | ..|.a?"}}, `{"x":` + deep + `}`, ""},
		{"a long JSON path", workv1.IgnoreField{JSONPaths: []string{strings.Repeat(".a", 500_000)}}, `{}`,
			"bytes are more than"},
		{"a deep JSON path", workv1.IgnoreField{JSONPaths: []string{strings.Repeat("[?(@.a", 600)}}, `{}`, ""},
		{"a deep pointer", workv1.IgnoreField{JSONPointers: []string{"/x" + strings.Repeat("/a", 5000)}}, `{"x":` + deep +
			`}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},` +
				tt.object[1:])); err != nil && tt.object != "{}" {
				t.Fatal(err)
			}
			if tt.object == "{}" {
				obj = parse(t, manifest)
			}
			if tt.want == "" { // any result, within the limits
				hostiletest.Check(t, func() { _, _ = find(t, obj, obj, tt.field) })
				return
			}
			if err := findInTime(t, obj, tt.field); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.300v, want %q", err, tt.want)
			}
		})
	}
}

// findInTime calls find within the limits. It repeats the call if the time limit ended it: on a
// loaded machine, that limit can be reached before the others.
func findInTime(t *testing.T, obj *unstructured.Unstructured, field workv1.IgnoreField) (err error) {
	for range 50 {
		hostiletest.Check(t, func() { _, err = find(t, obj, obj, field) })
		if err == nil || !strings.Contains(err.Error(), "it takes longer than") {
			break
		}
	}
	return err
}

// TestLongPointers checks the limit for pointers to many fields below a field with a long name,
// which would take much memory.
func TestLongPointers(t *testing.T) {
	obj := parseText(`{apiVersion: v1, kind: X, metadata: {name: x}}`)
	items := map[string]any{}
	for i := range 5000 {
		items[fmt.Sprint("n", i)] = "v"
	}
	obj.Object[strings.Repeat("long", 20_000)] = items
	for _, field := range []workv1.IgnoreField{{JSONPaths: []string{".*.*"}}, {JQPathExpressions: []string{".[]?[]?"}}} {
		if err := findInTime(t, obj, field); err == nil || !strings.Contains(err.Error(), "takes more than 4,000,000 steps") {
			t.Errorf("%.300v", err)
		}
	}
}

// FuzzIgnoreFields applies one path of each kind.
func FuzzIgnoreFields(f *testing.F) {
	for _, seed := range [][3]string{
		{".spec.replicas", "/spec/args/0", `.spec.template.spec.containers[] | select(.name == "web") | .image`},
		{"..image", "/metadata/labels/a~1b", `.. | select(type == "string" and test("(a?){10}")) `},
		{`.spec.template.spec.containers[?(@.name=="web")].ports[0:2]`, "", `limit(3; .spec.args[]), first(..), (.a // .b)`},
		{"[*][*][*]", "/", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	m := parseText(manifest)
	l := parseText(live)
	f.Fuzz(func(t *testing.T, jsonPath, pointer, jq string) {
		for _, field := range []workv1.IgnoreField{{JSONPaths: []string{jsonPath}}, {JSONPointers: []string{pointer}},
			{JQPathExpressions: []string{jq}}} {
			hostiletest.Check(t, func() { _, _ = find(t, m, l, field) })
		}
	})
}

// FuzzJQ evaluates expressions on an object with long texts, long lists and many levels.
func FuzzJQ(f *testing.F) {
	for _, seed := range []string{
		"", "#", ".x", ".. | .a?", manyTimes, `select(.x | test("((a?){100}){10}b$"))`, `.l[] | select(contains("a"))`,
		`.l[1:][0]`, `if .x > 1 then .. else .l[-1] end`,
		`select(all(.l[]; ascii_upcase | ltrimstr("A") | length > 1e1000))`, `select(. == .)`, `-(.l[0])`, `.["x"], ."x"?`,
		`limit(1e9; ..)`, `last(.l[])`,
	} {
		f.Add(seed)
	}
	m := parseText(`{apiVersion: v1, kind: X, metadata: {name: x}}`)
	m.Object["x"] = strings.Repeat("a", 100_000)
	list, deep := []any{}, map[string]any{}
	for i := range 2000 {
		list = append(list, fmt.Sprint("item", i))
	}
	for range 500 {
		deep = map[string]any{"a": deep}
	}
	m.Object["l"], m.Object["deep"] = list, deep
	f.Fuzz(func(t *testing.T, jq string) {
		hostiletest.Check(t, func() {
			_, _ = find(t, m, m, workv1.IgnoreField{JQPathExpressions: []string{jq}})
		})
	})
}
