// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/examples/hub/internal/document"
)

func withRollout(rollout string) string {
	return head + "kind: Application\nmetadata: {name: shop}\n" +
		"spec: {parts: [{name: a, manifests: [{template: x}]}], rollout: {" + rollout + "}}\n"
}

// TestDecodeRefusesRollouts checks that a rollout that cannot finish is refused, and that the error
// names its field.
func TestDecodeRefusesRollouts(t *testing.T) {
	const canary = "groups: [{name: canary, clusters: {names: [c1]}"
	for _, tt := range []struct{ rollout, field, problem string }{
		{"maxConcurrency: 0", "maxConcurrency", `"0": must be a number from 1`},
		{"maxConcurrency: some", "maxConcurrency", `"some": must be a number from 1`},
		{"maxConcurrency: [1]", "maxConcurrency", "must not be an array"},
		{"maxFailures: -1", "maxFailures", `"-1": must be a number from 0`},
		{"maxFailures: 101%", "maxFailures", `"101%": must be a number from 0`},
		{"until: Applied", "until", `"Applied": must be Deployed or Ready`},
		{"minSuccessTime: -1s", "minSuccessTime", "must not be negative"},
		{"minSuccessTime: 1s, until: Deployed", "minSuccessTime", "needs Until Ready"},
		{"minSuccessTime: 1m, progressDeadline: 1m", "minSuccessTime", "must be shorter than ProgressDeadline"},
		{"progressDeadline: soon", "progressDeadline", `"soon": must be a duration`},
		{"progressDeadline: -1s", "progressDeadline", "must not be negative"},
		{"concurrency: 1", "concurrency", "unknown field"},
		{"groups: [{clusters: {names: [c1]}}]", "groups[0].name", "must be set"},
		{canary + "}, {name: canary, clusters: {selector: {}}}]", "groups[1].name", "the name of an earlier group"},
		{canary + "}, {name: b, clusters: {names: [c2, c1]}}]", "groups[1].clusters", `is in group "canary" already`},
		{"groups: [{name: canary}]", "groups[0].clusters", "must have names or a selector"},
		{
			"groups: [{name: a, clusters: {selector: {matchLabels: {a: b c}}}}]",
			"groups[0].clusters.selector.matchLabels", "valid label",
		},
		{canary + ", maxConcurrency: 0%}]", "groups[0].maxConcurrency", "must be a number from 1"},
		{canary + ", maxFailures: x}]", "groups[0].maxFailures", "must be a number from 0"},
		{canary + ", wait: 1}]", "groups[0].wait", "must be a string"},
		{canary + ", wait: 1 hour}]", "groups[0].wait", `"1 hour": must be a duration`},
		{canary + ", wait: -1s}]", "groups[0].wait", "must not be negative"},
		{canary + ", approveBefore: later}]", "groups[0].approveBefore", "must not be a string"},
	} {
		refusedBySchema(t, tt.rollout, withRollout(tt.rollout))
		_, err := document.Decode([]byte(withRollout(tt.rollout)), "some.yaml")
		var wrong *document.Error
		if !errors.As(err, &wrong) || wrong.Where != "some.yaml, document 1" ||
			wrong.Field != "spec.rollout."+tt.field || !strings.Contains(wrong.Problem, tt.problem) {
			t.Errorf("%s: %v, want spec.rollout.%s: %s", tt.rollout, err, tt.field, tt.problem)
		}
	}
}

// TestRolloutOfDocument checks that groups select among the clusters of the application, and that a
// cluster is in at most one group.
func TestRolloutOfDocument(t *testing.T) {
	const north = "clusters: {selector: {matchLabels: {region: north}}}"
	for rollout, want := range map[string]string{
		"maxConcurrency: 1": "1 []",
		"maxConcurrency: 10%, groups: [{name: a, clusters: {names: [c3, c2]}}, {name: b, " + north +
			", maxFailures: 50%}]": "10% [a c2 c3 | b c1 50%]",
		"groups: [{name: a, clusters: {names: [c4]}}]": " [a]", // the application is not on it
		"groups: [{name: a, clusters: {names: [c1]}}, {name: b, " + north + "}]": `some.yaml, document 1: ` +
			`spec.rollout.groups[1].clusters: hub+c1: is in group "a" already`,
	} {
		set, err := document.NewSet(decode(t, withRollout(rollout)+"---\n"+strings.Split(fleet, head+"kind: Application")[0]+
			head+"kind: Cluster\nmetadata: {name: c4}\n---\n"+
			head+"kind: Placement\nmetadata: {name: p}\nspec: {applications: [shop], clusters: {names: [c1, c2, c3]}}\n")...)
		if err == nil {
			err = set.Validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := set.Document(document.ApplicationKind, "shop").Rollout(set.On("shop"))
		got := fmt.Sprint(err)
		if err == nil {
			var groups []string
			for _, g := range r.Groups {
				text := g.Name
				for _, c := range g.Clusters {
					text += " " + c.Name
				}
				groups = append(groups, strings.TrimSpace(text+" "+g.MaxFailures))
			}
			got = r.MaxConcurrency + " [" + strings.Join(groups, " | ") + "]"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", rollout, got, want)
		}
	}
	set, err := document.NewSet(decode(t, withRollout("groups: [{name: a, clusters: {names: [c9]}}]"))...)
	if err != nil {
		t.Fatal(err)
	}
	const want = `some.yaml, document 1: spec.rollout.groups[0].clusters.names[0]: there is no Cluster "c9"`
	if err := set.Validate(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
