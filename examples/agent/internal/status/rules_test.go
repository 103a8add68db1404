// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/agent/internal/guard"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

// ruled adds a rule for each condition. All rules are true.
func ruled(conditions ...string) func(*spoke.Outcome) {
	return func(o *spoke.Outcome) {
		for _, c := range conditions {
			o.Config.ConditionRules = append(o.Config.ConditionRules,
				workv1.ConditionRule{Condition: c, Type: workv1.CelConditionExpressionsType, CelExpressions: []string{"true"}})
		}
	}
}

// TestRulesWithoutObject checks the conditions of rules while the object is gone, cannot be read,
// or could not be applied.
func TestRulesWithoutObject(t *testing.T) {
	b := builder(t)
	all := ruled("Ready", workv1.ManifestApplied, workv1.ManifestAvailable, workv1.ManifestProgressing,
		workv1.ManifestDegraded)
	for _, tt := range []struct {
		name   string
		change func(*spoke.Outcome)
		want   []metav1.ConditionStatus // of Ready, Applied and Available
	}{
		{"there", nil, []metav1.ConditionStatus{"True", "True", "True"}},
		{"gone", func(o *spoke.Outcome) { o.Live = nil }, []metav1.ConditionStatus{"Unknown", "True", "False"}},
		{"not to be read", func(o *spoke.Outcome) { o.Live, o.ReadErr = nil, errors.New("no") },
			[]metav1.ConditionStatus{"Unknown", "True", "Unknown"}},
		{"refused", func(o *spoke.Outcome) { o.Err = errors.New("no") }, []metav1.ConditionStatus{"True", "False", "True"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			w.Status, _ = b.Next(t.Context(), w, result(outcome("a", all)), start)
			r := result(outcome("a", func(o *spoke.Outcome) {
				all(o)
				if tt.change != nil {
					tt.change(o)
				}
			}))
			w.Status, _ = b.Next(t.Context(), w, r, start.Add(time.Second))
			conditions := w.Status.ResourceStatus.Manifests[0].Conditions
			var got []metav1.ConditionStatus
			for _, kind := range []string{"Ready", workv1.ManifestApplied, workv1.ManifestAvailable} {
				got = append(got, meta.FindStatusCondition(conditions, kind).Status)
			}
			if !cmp.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if again, _ := b.Next(t.Context(), w, r, start.Add(2*time.Second)); !cmp.Equal(again, w.Status) {
				t.Errorf("nothing has changed: %s", cmp.Diff(w.Status, again))
			}
		})
	}
}

// TestUnusableRule checks that an invalid condition type is reported and left out of the status.
// The API server would refuse the whole status otherwise.
func TestUnusableRule(t *testing.T) {
	b, w := builder(t), &workv1.ManifestWork{}
	serve := func(change func(*spoke.Outcome)) []metav1.Condition {
		w.Status, _ = b.Next(t.Context(), w, result(outcome("a", change)), start)
		return w.Status.ResourceStatus.Manifests[0].Conditions
	}
	conditions := serve(ruled("job done", "", "example.com/Ready", strings.Repeat("x", 317), "Done"))
	for kind, want := range map[string]bool{"job done": false, "": false, strings.Repeat("x", 317): false,
		"example.com/Ready": true, "Done": true} {
		if got := meta.FindStatusCondition(conditions, kind); (got != nil) != want {
			t.Errorf("%.20q: %+v", kind, got)
		}
	}
	c := meta.FindStatusCondition(conditions, status.ConditionRulesUsable)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, `"job done", ""`) {
		t.Errorf("%+v", c)
	}
	if c := meta.FindStatusCondition(serve(ruled("Done")), status.ConditionRulesUsable); c != nil {
		t.Errorf("all can be used, and it is %+v", c)
	}
}

// TestSameTwice checks that two manifests of one object have separate statuses, which do not change
// while the result does not.
func TestSameTwice(t *testing.T) {
	b, w := builder(t), &workv1.ManifestWork{}
	r := result(outcome("a", nil),
		outcome("a", func(o *spoke.Outcome) { o.Err = errors.New("it is the same object as manifest 0") }))
	w.Status, _ = b.Next(t.Context(), w, r, start)
	if again, _ := b.Next(t.Context(), w, r, start.Add(time.Second)); !cmp.Equal(again, w.Status) {
		t.Errorf("nothing has changed: %s", cmp.Diff(w.Status, again))
	}
}

// TestLongMessage checks that the message for many invalid paths is short enough for a status.
func TestLongMessage(t *testing.T) {
	r := result(outcome("a", func(o *spoke.Outcome) {
		rule := workv1.FeedbackRule{Type: workv1.JSONPathsType}
		for range 1000 {
			rule.JsonPaths = append(rule.JsonPaths, workv1.JsonPath{Name: "x", Path: ".status["})
		}
		o.Config.FeedbackRules = []workv1.FeedbackRule{rule}
	}))
	next, _ := builder(t).Next(t.Context(), &workv1.ManifestWork{}, r, start)
	c := meta.FindStatusCondition(next.ResourceStatus.Manifests[0].Conditions, status.StatusFeedbackSynced)
	if c == nil || c.Status != metav1.ConditionFalse || len(c.Message) > 2100 {
		t.Errorf("%.200v", c)
	}
}

// TestRulesWithinLimits checks that rules that exceed the budget of their work are reported, in
// each rule and in the work, until they no longer exceed it.
func TestRulesWithinLimits(t *testing.T) {
	b, w := builder(t), &workv1.ManifestWork{}
	serve := func(used int) {
		ctx, _ := guard.WithBudget(t.Context())
		for range used {
			if err := guard.Evaluate(ctx, time.Hour, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		w.Status, _ = b.Next(ctx, w, result(outcome("a", func(o *spoke.Outcome) {
			ruled("First", "Second")(o)
			o.Config.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
				JsonPaths: []workv1.JsonPath{{Name: "name", Path: ".metadata.name"}}}}
		})), start)
	}
	serve(guard.MaxRules - 2)
	conditions := w.Status.ResourceStatus.Manifests[0].Conditions
	first, second := meta.FindStatusCondition(conditions, "First"), meta.FindStatusCondition(conditions, "Second")
	if first.Status != "True" || second.Status != "Unknown" || second.Reason != workv1.ConditionRuleInvalid ||
		!strings.Contains(second.Message, "make them fewer or simpler") {
		t.Errorf("%+v, %+v", first, second)
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, status.RulesWithinLimits); c == nil || c.Status != "False" ||
		!strings.Contains(c.Message, "split the work") {
		t.Errorf("%+v", c)
	}
	serve(guard.MaxRules)
	if c := meta.FindStatusCondition(w.Status.ResourceStatus.Manifests[0].Conditions,
		status.StatusFeedbackSynced); c.Status != "False" || !strings.Contains(c.Message, "make them fewer or simpler") {
		t.Errorf("%+v", c)
	}
	serve(0)
	if c := meta.FindStatusCondition(w.Status.Conditions, status.RulesWithinLimits); c != nil ||
		!meta.IsStatusConditionTrue(w.Status.ResourceStatus.Manifests[0].Conditions, "Second") {
		t.Errorf("%+v", w.Status)
	}
}

// TestSecretIsNotRead checks that no rule is evaluated on a guarded Secret, and that values of an
// earlier report are removed.
func TestSecretIsNotRead(t *testing.T) {
	b := builder(t)
	secret := func(o *spoke.Outcome) {
		ruled("Ready", workv1.ManifestApplied, workv1.ManifestAvailable, workv1.ManifestComplete)(o)
		o.Config.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
			{Name: "name", Path: ".metadata.name"},
		}}}
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	w.Status, _ = b.Next(t.Context(), w, result(outcome("a", secret)), start)
	if n := len(w.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values); n != 1 {
		t.Fatalf("%d values are read", n)
	}
	next, _ := b.Next(t.Context(), w, result(outcome("a", func(o *spoke.Outcome) {
		secret(o)
		o.Guarded = true
	})), start)
	m := next.ResourceStatus.Manifests[0]
	if len(m.StatusFeedbacks.Values) > 0 {
		t.Errorf("the values are %+v", m.StatusFeedbacks.Values)
	}
	for kind, want := range map[string]string{
		"Ready": workv1.ConditionRuleInvalid, workv1.ManifestComplete: workv1.ConditionRuleInvalid,
		status.StatusFeedbackSynced: status.ReasonSecretNotRead, status.ConditionRulesUsable: status.ReasonSecretNotRead,
		workv1.ManifestApplied: workv1.AppliedManifestComplete, workv1.ManifestAvailable: status.ReasonResourceAvailable,
	} {
		c := meta.FindStatusCondition(m.Conditions, kind)
		if c == nil || c.Reason != want {
			t.Errorf("%s is %+v, want the reason %s", kind, c, want)
		}
	}
}

// TestManyRules checks that rules over the limit of a work are reported, and that a Complete
// manifest stays Complete.
func TestManyRules(t *testing.T) {
	ctx, _ := guard.WithBudget(t.Context())
	w := &workv1.ManifestWork{}
	over := outcome("a", func(o *spoke.Outcome) {
		id := workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "n", Name: "a"}
		options := []workv1.ManifestConfigOption{{
			ResourceIdentifier: id, FeedbackRules: slices.Repeat([]workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}},
				guard.MaxRules+1),
			ConditionRules: []workv1.ConditionRule{{Condition: workv1.ManifestComplete, Type: workv1.CelConditionExpressionsType,
				CelExpressions: []string{"true"}}},
		}}
		for i := range guard.MaxRules + 1 {
			options[0].ConditionRules = append(options[0].ConditionRules, workv1.ConditionRule{Condition: fmt.Sprint("C", i)})
		}
		o.Config = manifest.NewConfigs(options).For(id, guard.BudgetFrom(ctx))
	})
	w.Status, _ = builder(t).Next(ctx, w, result(over), start)
	if c := meta.FindStatusCondition(w.Status.Conditions, status.RulesWithinLimits); c == nil || c.Status != "False" {
		t.Errorf("%+v", c)
	}
	conditions := w.Status.ResourceStatus.Manifests[0].Conditions
	for _, kind := range []string{status.StatusFeedbackSynced, status.ConditionRulesUsable} {
		if c := meta.FindStatusCondition(conditions, kind); c == nil || c.Status != "False" ||
			c.Reason != status.ReasonLimitExceeded || !strings.Contains(c.Message, "more than 10000 rules") {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if len(conditions) > 10 || !meta.IsStatusConditionTrue(conditions, workv1.ManifestComplete) ||
		!meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkComplete) {
		t.Errorf("%d conditions: %+v", len(conditions), w.Status.Conditions)
	}
}
