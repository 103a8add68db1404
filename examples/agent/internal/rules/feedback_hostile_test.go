// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/rules"
	"github.com/spokewire/sdk-go/internal/testing/hostiletest"
)

func hostileObject() *unstructured.Unstructured {
	list, deep := []any{}, map[string]any{}
	for i := range 2000 {
		list = append(list, map[string]any{"name": fmt.Sprint("item", i), "n": int64(i), "l": []any{int64(i), "x"}})
	}
	for range 2000 {
		deep = map[string]any{"a": deep}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "x"}, "x": strings.Repeat("a", 100_000),
		"l": list, "deep": deep, "status": map[string]any{"l": list},
	}}
}

func read(t *testing.T, paths ...string) error {
	rule := workv1.FeedbackRule{Type: workv1.JSONPathsType}
	for i, p := range paths {
		rule.JsonPaths = append(rule.JsonPaths, workv1.JsonPath{Name: fmt.Sprint(i), Path: p})
	}
	ctx, _ := guard.WithBudget(t.Context())
	var err error
	hostiletest.Check(t,
		func() { _, err = rules.Feedback(ctx, []workv1.FeedbackRule{rule}, hostileObject(), nil) })
	return err
}

// TestHostilePaths checks that no path takes long or allocates much memory, and that the same is
// true for many paths together.
func TestHostilePaths(t *testing.T) {
	many := func(path string, n int) []string { return strings.Split(strings.Repeat(path+"\n", n), "\n")[:n] }
	for name, paths := range map[string][]string{
		"descendants":           {"..a"},
		"descendants twice":     {"....a"},
		"all of a deep object":  {".deep..a"},
		"filters":               {`.l[?(@..n==@..n)].l[?(@!="x")]`},
		"nested filters":        {".l" + strings.Repeat("[?(@.l", 500)},
		"unions":                {".l[" + strings.Repeat("0,", 2000) + "0]"},
		"a long path":           {strings.Repeat(".a", 100_000)},
		"a large value":         {".l"},
		"large values together": many(".l", 2000),
		"many wrong paths":      many(".l[", 2000),
		"a range without an end": {".l[0:9223372036854775807:1]", ".l[-9223372036854775808:]", ".l[::9223372036854775807]",
			".l[1::9223372036854775807]"},
	} {
		t.Run(name, func(t *testing.T) { t.Logf("%.200v", read(t, paths...)) })
	}
}

// FuzzJSONPath reads one path.
func FuzzJSONPath(f *testing.F) {
	for _, seed := range []string{
		"", ".status.l", "{.l[*].name}", `..[?(@.name=="item1")].n`, ".l[0:10:2].l[-1]", ".l[0,1,'name']", "['x']", "{$}",
		"{@}", `.l[?(@.n>=1.5)]`, `.l[?(@.l[?(@=="x")])]`, "{range .l[*]}{.n}{end}", "....a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) { _ = read(t, path) })
}
