// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// TestLongLists: a value with long lists gives the same errors as the validator returns for the
// whole value.
func TestLongLists(t *testing.T) {
	odd := rapid.SampledFrom([]any{nil, "", "odd", int64(1), true, []any{}, []any{"x"}, map[string]any{},
		map[string]any{"x": "y"}})
	level, short := 0, 0 // the lists of one level are short: three levels of long lists take minutes
	list := func(t *rapid.T, element func(*rapid.T) any) []any {
		lengths := []int{0, 1, 2, 32, 33, 40}
		if level == short {
			lengths = lengths[:3]
		}
		level++
		defer func() { level-- }()
		out := make([]any, rapid.SampledFrom(lengths).Draw(t, "length"))
		common := element(t)
		for i := range out {
			out[i] = common
		}
		for range min(len(out), 3) {
			out[rapid.IntRange(0, len(out)-1).Draw(t, "place")] = element(t)
		}
		return out
	}
	object := func(members map[string]func(*rapid.T) any) func(*rapid.T) any {
		names := make([]string, 0, len(members))
		for name := range members {
			names = append(names, name)
		}
		slices.Sort(names)
		return func(t *rapid.T) any {
			out := map[string]any{}
			for _, name := range names {
				switch rapid.IntRange(0, 5).Draw(t, name) {
				case 0:
				case 1:
					out[name] = odd.Draw(t, "odd")
				default:
					out[name] = members[name](t)
				}
			}
			return out
		}
	}
	text := func(texts ...string) func(*rapid.T) any {
		return func(t *rapid.T) any { return rapid.SampledFrom(append(texts, "odd one")).Draw(t, "text") }
	}
	lists := func(element func(*rapid.T) any) func(*rapid.T) any {
		return func(t *rapid.T) any { return list(t, element) }
	}
	condition := object(map[string]func(*rapid.T) any{
		"type": text("Applied"), "status": text("True"), "reason": text("R"), "message": text("m"),
		"lastTransitionTime": text("2026-01-02T15:04:05Z"),
	})
	of := map[string]func(*rapid.T) any{
		"spec": object(map[string]func(*rapid.T) any{
			"workload": object(map[string]func(
				*rapid.T) any{"manifests": lists(object(map[string]func(*rapid.T) any{"kind": text("A")}))}),
			"manifestConfigs": lists(object(map[string]func(*rapid.T) any{
				"resourceIdentifier": object(map[string]func(*rapid.T) any{"resource": text("a"), "name": text("b")}),
				"feedbackRules": lists(object(map[string]func(*rapid.T) any{
					"type":      text("JSONPaths"),
					"jsonPaths": lists(object(map[string]func(*rapid.T) any{"name": text("n"), "path": text("p")})),
				})),
			})),
		}),
		"status": object(map[string]func(*rapid.T) any{
			"conditions": lists(condition),
			"resourceStatus": object(map[string]func(*rapid.T) any{
				"manifests": lists(object(map[string]func(*rapid.T) any{"conditions": lists(condition),
					"resourceMeta": object(nil)})),
			}),
		}),
	}
	rapid.Check(t, func(t *rapid.T) {
		member := rapid.SampledFrom([]string{"spec", "status"}).Draw(t, "member")
		level, short = 0, rapid.IntRange(0, 2).Draw(t, "short")
		value := of[member](t)
		texts := func(errs field.ErrorList) (out []string) {
			for _, e := range errs {
				out = append(out, e.Error())
			}
			slices.Sort(out)
			return slices.Compact(out)
		}
		want := texts(crd.Constraints(member, value, true))
		got := texts(crd.Constraints(member, value, false))
		if len(want) > crd.MaxErrors {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
