// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ignore_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/ignore"
)

// TestHostileExpressions: no expression panics, runs for long or allocates much.
func TestHostileExpressions(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for _, tt := range []struct {
		name   string
		field  workv1.IgnoreField
		object string
		want   string
	}{
		{"empty", workv1.IgnoreField{JQPathExpressions: []string{""}}, `{}`, "it is empty"},
		{"comment only", workv1.IgnoreField{JQPathExpressions: []string{"# .spec"}}, `{}`, "it is empty"},
		{"empty parentheses", workv1.IgnoreField{JQPathExpressions: []string{"()"}}, `{}`, "unexpected"},
		{"counted repeats", workv1.IgnoreField{JQPathExpressions: []string{`select(.x | test("((((a?){10}){10}){10}){1}((((a?){10}){10}){10}){1}b$"))`}}, `{"x":"` + strings.Repeat("a", 100_000) + `"}`, "regular expression"},
		{"a large program", workv1.IgnoreField{JQPathExpressions: []string{`select(.x | test("(` + strings.Repeat("ab", 1500) + `){1000}"))`}}, `{"x":"a"}`, "regular expression"},
		{"a long text", workv1.IgnoreField{JQPathExpressions: []string{`select(.x | test("(a?){100}b$"))`}}, `{"x":"` + strings.Repeat("a", 1_000_000) + `"}`, "regular expression"},
		{"many tests", workv1.IgnoreField{JQPathExpressions: []string{`select(all(.x[]; test("(a?){100}b$") | not)) | .x`}}, `{"x":[` + strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 10_000) + `""]}`, ""},
		{"a deep object, JSON path", workv1.IgnoreField{JSONPaths: []string{"..a"}}, `{"x":` + deep + `}`, "steps"},
		{"a deep object, jq", workv1.IgnoreField{JQPathExpressions: []string{".x | ..|.a?"}}, `{"x":` + deep + `}`, ""},
		{"a long JSON path", workv1.IgnoreField{JSONPaths: []string{strings.Repeat(".a", 500_000)}}, `{}`, "bytes, more than"},
		{"a deep JSON path", workv1.IgnoreField{JSONPaths: []string{strings.Repeat("[?(@.a", 600)}}, `{}`, ""},
		{"a deep pointer", workv1.IgnoreField{JSONPointers: []string{"/x" + strings.Repeat("/a", 5000)}}, `{"x":` + deep + `}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},` + tt.object[1:])); err != nil && tt.object != "{}" {
				t.Fatal(err)
			}
			if tt.object == "{}" {
				obj = parse(t, manifest)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := ignore.Apply(t.Context(), obj, obj, []workv1.IgnoreField{tt.field}, ours)
			d := time.Since(began)
			runtime.ReadMemStats(&after)
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%.300v, want %q", err, tt.want)
			}
			bytes := after.TotalAlloc - before.TotalAlloc
			t.Logf("%s, %d MiB: %.200v", d, bytes>>20, err)
			if d > 2*time.Second || bytes > 256<<20 {
				t.Errorf("it takes %s and %d MiB", d, bytes>>20)
			}
		})
	}
}
