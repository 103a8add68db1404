// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package fielddiff_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/fielddiff"
)

func object(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func texts(changes []fielddiff.Change) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, fmt.Sprintf("%s: %v -> %v", c.Path, c.Before, c.After))
	}
	return strings.Join(lines, "; ")
}

func TestBetween(t *testing.T) {
	for _, tt := range []struct{ reason, before, after, want string }{
		{"nothing", `{"a": {"b": [1]}}`, `{"a": {"b": [1]}}`, ""},
		{"in the order of paths", `{"b": 1, "a": 1}`, `{"b": 2, "a": 2}`, ".a: 1 -> 2; .b: 1 -> 2"},
		{"a field that comes or goes", `{"a": 1}`, `{"b": 1}`, ".a: 1 -> <nil>; .b: <nil> -> 1"},
		{"an item with a name", `{"c": [{"name": "x", "v": 1}, {"name": "y"}]}`,
			`{"c": [{"name": "y"}, {"name": "x", "v": 2}]}`,
			`.c[name="x"].v: 1 -> 2`},
		{"an item without", `{"c": [1, 2]}`, `{"c": [1, 3]}`, ".c[1]: 2 -> 3"},
		{"two items with one name", `{"c": [{"name": "x"}, {"name": "x"}]}`, `{"c": [{"name": "x"}]}`,
			".c: [map[name:x] map[name:x]] -> [map[name:x]]"},
		{"another type", `{"c": {"a": 1}}`, `{"c": [1]}`, ".c: map[a:1] -> [1]"},
		{"a name with a dot", `{"a": {}}`, `{"a": {"x.y/z": "1"}}`, `.a["x.y/z"]: <nil> -> 1`},
	} {
		if got := texts(fielddiff.Between(object(t, tt.before), object(t, tt.after))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, got, tt.want)
		}
	}
}

func TestRedact(t *testing.T) {
	changes := fielddiff.Between(
		object(t, `{"data": {"a": "x"}, "metadata": {"annotations": {"a": "x"}, "labels": {"a": "x"}}}`),
		object(t, `{"data": {"a": "y", "b": "y"}, "stringData": {"c": "y"}, "metadata": {"annotations": {"a": "y"}, "labels": {"a": "y"}}}`))
	fielddiff.Redact(changes)
	want := ".data.a: (redacted) -> (redacted); .data.b: <nil> -> (redacted); .metadata.annotations.a: (redacted) -> " +
		"(redacted); " +
		".metadata.labels.a: x -> y; .stringData: <nil> -> (redacted)"
	if got := texts(changes); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestOverlay(t *testing.T) {
	live := object(t, `{"a": {"x": 1, "y": 1}, "l": [1, 2], "c": [{"name": "a", "i": 1, "d": 1}, {"name": "gone"}]}`)
	manifest := object(t, `{"a": {"x": 2}, "l": [3], "c": [{"name": "a", "i": 2}, {"name": "b"}], "n": {"o": 1}}`)
	want := object(t, `{"a": {"x": 2, "y": 1}, "l": [3], "c": [{"name": "a", "i": 2, "d": 1}, {"name": "b"}], "n": {"o": 1}}`)
	before := object(t, `{"a": {"x": 1, "y": 1}, "l": [1, 2], "c": [{"name": "a", "i": 1, "d": 1}, {"name": "gone"}]}`)
	if d := cmp.Diff(want, fielddiff.Overlay(live, manifest)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, live); d != "" {
		t.Errorf("the live object was changed: %s", d)
	}
}
