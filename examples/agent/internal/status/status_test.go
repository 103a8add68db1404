// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/examples/agent/internal/fields"
	"github.com/spokewire/sdk-go/examples/agent/internal/manifest"
	"github.com/spokewire/sdk-go/examples/agent/internal/spoke"
	"github.com/spokewire/sdk-go/examples/agent/internal/status"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const degradedAfter = time.Minute

// outcome returns the outcome of a Deployment that exists and is healthy, with the changes of
// change.
func outcome(name string, change func(*spoke.Outcome)) spoke.Outcome {
	o := spoke.Outcome{Manifest: manifest.Manifest{
		Object: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": name, "namespace": "n"}}},
		Key:        appliedwork.Key{Group: "apps", Kind: "Deployment", Namespace: "n", Name: name},
		Resource:   schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespaced: true, Served: true,
	}}
	o.Live = o.Object.DeepCopy()
	o.Live.Object["spec"] = map[string]any{"replicas": int64(1)}
	o.Live.Object["status"] = map[string]any{"replicas": int64(1), "updatedReplicas": int64(1),
		"availableReplicas": int64(1), "readyReplicas": int64(1)}
	if change != nil {
		change(&o)
	}
	return o
}

func result(outcomes ...spoke.Outcome) *spoke.Result {
	for i := range outcomes {
		outcomes[i].Ordinal = i
	}
	return &spoke.Result{Outcomes: outcomes}
}

func builder(t *testing.T) *status.Builder {
	t.Helper()
	b, err := status.NewBuilder(degradedAfter)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// said formats conditions: type, status and reason.
func said(conditions []metav1.Condition) string {
	var parts []string
	for _, c := range conditions {
		parts = append(parts, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	return strings.Join(parts, " ")
}

func TestConditions(t *testing.T) {
	unready := func(o *spoke.Outcome) { o.Live.Object["status"] = map[string]any{} }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	const synced = " StatusFeedbackSynced=True(NoStatusFeedbackSynced)"
	for _, tt := range []struct {
		name           string
		change         func(*spoke.Outcome)
		manifest, work string
	}{
		{"as desired", nil, "Applied=True(AppliedManifestComplete) Available=True(ResourceAvailable)" + synced +
			" Progressing=False(Completed) Degraded=False(AsDesired)",
			"Applied=True(AppliedManifestWorkComplete) Available=True(ResourcesAvailable) Progressing=False(Completed) " +
				"Degraded=False(AsDesired)"},
		{"not healthy yet", unready, "Applied=True(AppliedManifestComplete) Available=True(ResourceAvailable)" + synced +
			" Progressing=True(NotHealthy) Degraded=False(NotHealthy)",
			"Applied=True(AppliedManifestWorkComplete) Available=True(ResourcesAvailable) Progressing=True(Applying) " +
				"Degraded=False(AsDesired)"},
		{"refused", func(o *spoke.Outcome) { o.Err, o.Live = errors.New("no"), nil },
			"Applied=False(AppliedManifestFailed) Available=False(ResourceNotAvailable) Progressing=True(Failed) " +
				"Degraded=False(Failed)",
			"Applied=False(AppliedManifestWorkFailed) Available=False(ResourcesNotAvailable) Progressing=True(Failed) " +
				"Degraded=False(AsDesired)"},
		{"a conflict", func(o *spoke.Outcome) { o.Err = &appliedwork.OwnershipConflictError{Key: o.Key} },
			"Applied=False(ApplyConflict) Available=True(ResourceAvailable)" + synced +
				" Progressing=True(Failed) Degraded=False(Failed)",
			"Applied=False(AppliedManifestWorkFailed) Available=True(ResourcesAvailable) Progressing=True(Failed) " +
				"Degraded=False(AsDesired)"},
		{"a path", func(o *spoke.Outcome) { o.Err = &fields.Error{Path: "x", Err: errors.New("no")} },
			"Applied=False(AppliedManifestSSAIgnoreFieldError) Available=True(ResourceAvailable)" + synced +
				" Progressing=True(Failed) Degraded=False(Failed)",
			"Applied=False(AppliedManifestWorkFailed) Available=True(ResourcesAvailable) Progressing=True(Failed) " +
				"Degraded=False(AsDesired)"},
		{"going first", func(o *spoke.Outcome) { o.Err, o.Pending = errors.New("it is being deleted"), true },
			"Applied=False(AppliedManifestFailed) Available=True(ResourceAvailable)" + synced +
				" Progressing=True(Applying) Degraded=False(Applying)",
			"Applied=False(AppliedManifestWorkFailed) Available=True(ResourcesAvailable) Progressing=True(Applying) " +
				"Degraded=False(AsDesired)"},
		{"not to be read", func(o *spoke.Outcome) { o.Live, o.ReadErr = nil, forbidden },
			"Applied=True(AppliedManifestComplete) Available=Unknown(FetchingResourceFailed) Progressing=True(Applying) " +
				"Degraded=False(Applying)",
			"Applied=True(AppliedManifestWorkComplete) Available=Unknown(ResourcesStatusUnknown) Progressing=True(Applying) " +
				"Degraded=False(AsDesired)"},
		{"not known", func(o *spoke.Outcome) { o.Live, o.Err, o.Resource.Resource = nil, errors.New("no"), "" },
			"Applied=False(AppliedManifestFailed) Available=Unknown(IncompletedResourceMeta) Progressing=True(Failed) " +
				"Degraded=False(Failed)",
			"Applied=False(AppliedManifestWorkFailed) Available=Unknown(ResourcesStatusUnknown) Progressing=True(Failed) " +
				"Degraded=False(AsDesired)"},
		{"rules in place of ours", func(o *spoke.Outcome) {
			unready(o)
			for _, kind := range []string{workv1.ManifestProgressing, workv1.ManifestDegraded, workv1.ManifestAvailable} {
				o.Config.ConditionRules = append(o.Config.ConditionRules, workv1.ConditionRule{Condition: kind,
					Type: workv1.CelConditionExpressionsType, CelExpressions: []string{"false"}})
			}
		}, "Applied=True(AppliedManifestComplete)" + synced +
			" Progressing=False(ConditionRuleEvaluated) Degraded=False(ConditionRuleEvaluated) " +
			"Available=False(ConditionRuleEvaluated)",
			"Applied=True(AppliedManifestWorkComplete) Available=False(ResourcesNotAvailable) Progressing=False(Completed) " +
				"Degraded=False(AsDesired)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			r := result(outcome("web", nil), outcome("x", tt.change))
			next, after := builder(t).Next(t.Context(), w, r, start)
			if got := said(next.ResourceStatus.Manifests[1].Conditions); got != tt.manifest {
				t.Errorf("the manifest: %s", got)
			}
			if got := said(next.Conditions); got != tt.work {
				t.Errorf("the work: %s", got)
			}
			for _, c := range append(next.Conditions, next.ResourceStatus.Manifests[1].Conditions...) {
				if c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(start) {
					t.Errorf("%+v", c)
				}
			}
			progresses := meta.IsStatusConditionTrue(next.ResourceStatus.Manifests[1].Conditions, workv1.ManifestProgressing)
			if want := degradedAfter; progresses != (after == want) {
				t.Errorf("served again after %s", after)
			}

			// An unchanged result gives the same status. An object that is not as desired becomes
			// degraded in the end.
			w.Status = next
			if again, _ := builder(t).Next(t.Context(), w, r, start.Add(degradedAfter/2)); !cmp.Equal(again, next) {
				t.Errorf("nothing has changed: %s", cmp.Diff(next, again))
			}
			last, after := builder(t).Next(t.Context(), w, r, start.Add(degradedAfter))
			if meta.IsStatusConditionTrue(last.Conditions, workv1.WorkDegraded) != progresses || after != 0 {
				t.Errorf("the work: %s, served again after %s", said(last.Conditions), after)
			}
		})
	}
}

// TestFailedJob checks that a failed Job is degraded immediately. A Job with a failed pod that
// tries another pod is not degraded.
func TestFailedJob(t *testing.T) {
	job := func(conditions ...any) func(*spoke.Outcome) {
		return func(o *spoke.Outcome) {
			o.Live.SetAPIVersion("batch/v1")
			o.Live.SetKind("Job")
			o.Live.Object["status"] = map[string]any{"failed": int64(1), "conditions": conditions}
		}
	}
	failed := func(status string) any {
		return map[string]any{"type": "Failed", "status": status, "reason": "BackoffLimitExceeded",
			"message": "Job has reached the specified backoff limit"}
	}
	const message = "BackoffLimitExceeded: Job has reached the specified backoff limit"
	for _, tt := range []struct {
		name   string
		change func(*spoke.Outcome)
		want   string
		reason string
	}{
		{"it has failed", job(map[string]any{"type": "FailureTarget", "status": "True"}, failed("True")),
			"Progressing=True(ObjectFailed) Degraded=True(ObjectFailed)", message},
		{"it has not", job(failed("False")), "Degraded=False", ""},
		{"it says nothing", job("Failed"), "Degraded=False", ""},
		{"it is not applied", func(o *spoke.Outcome) { job(failed("True"))(o); o.Err = errors.New("no") },
			"Progressing=True(Failed) Degraded=False(Failed)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next, _ := builder(t).Next(t.Context(), &workv1.ManifestWork{}, result(outcome("x", tt.change)), start)
			conditions := next.ResourceStatus.Manifests[0].Conditions
			if got := said(conditions); !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if c := meta.FindStatusCondition(conditions, workv1.ManifestDegraded); c.Message != tt.reason {
				t.Errorf("%q, want %q", c.Message, tt.reason)
			}
			if got := meta.IsStatusConditionTrue(next.Conditions, workv1.WorkDegraded); got != (tt.reason != "") {
				t.Errorf("the work: %s", said(next.Conditions))
			}
		})
	}
}

// TestComplete checks that a complete manifest stays complete until its rule is removed, also if
// its object changes or is deleted.
func TestComplete(t *testing.T) {
	b := builder(t)
	rule := workv1.ConditionRule{Condition: workv1.ManifestComplete, Type: workv1.CelConditionExpressionsType,
		CelExpressions: []string{"object.status.readyReplicas == 1"}}
	withRule := func(o *spoke.Outcome) { o.Config.ConditionRules = []workv1.ConditionRule{rule} }
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	serve := func(now time.Time, outcomes ...spoke.Outcome) {
		t.Helper()
		r := result(outcomes...)
		for i := range r.Outcomes {
			r.Outcomes[i].Kept = status.Kept(w)(&r.Outcomes[i].Manifest)
		}
		w.Status, _ = b.Next(t.Context(), w, r, now)
	}
	complete := func(want metav1.ConditionStatus, at time.Time) {
		t.Helper()
		c := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkComplete)
		if c == nil && want == "" {
			return
		}
		if c == nil || c.Status != want || !c.LastTransitionTime.Time.Equal(at) || c.ObservedGeneration != w.Generation {
			t.Errorf("%+v, want %s since %s", c, want, at)
		}
	}
	unready := func(o *spoke.Outcome) {
		withRule(o)
		o.Live.Object["status"] = map[string]any{"readyReplicas": int64(0)}
	}
	serve(start, outcome("a", withRule), outcome("b", unready), outcome("c", nil))
	complete("False", start)
	if got := []bool{kept(w, "a", withRule), kept(w, "b", withRule), kept(w, "c", nil)}; !cmp.Equal(got,
		[]bool{true, false, false}) {
		t.Errorf("kept %v", got)
	}
	// The object of a was deleted. b becomes complete, and so does the work.
	gone := func(o *spoke.Outcome) { withRule(o); o.Live = nil }
	later := start.Add(time.Second)
	serve(later, outcome("a", gone), outcome("b", withRule), outcome("c", nil))
	complete("True", later)
	if !kept(w, "c", nil) {
		t.Error("a work that is complete is not touched")
	}
	serve(later.Add(time.Second), outcome("a", gone), outcome("b", unready), outcome("c", nil))
	complete("True", later)
	// A new generation is evaluated again, except for complete manifests.
	w.Generation = 2
	if got := []bool{kept(w, "a", withRule), kept(w, "c", nil)}; !cmp.Equal(got, []bool{true, false}) {
		t.Errorf("kept %v", got)
	}
	serve(later.Add(time.Minute), outcome("a", gone), outcome("b", unready), outcome("c", nil))
	complete("True", later)
	// Without rules the condition is removed.
	w.Generation = 3
	serve(later.Add(time.Minute), outcome("a", nil))
	complete("", later)
	if got := said(w.Status.ResourceStatus.Manifests[0].Conditions); strings.Contains(got, "Complete=") {
		t.Error(got)
	}
}

// TestCompleteInPart checks that a complete work still reports manifests that could not be applied,
// and still applies them.
func TestCompleteInPart(t *testing.T) {
	b := builder(t)
	done := func(o *spoke.Outcome) {
		o.Config.ConditionRules = []workv1.ConditionRule{{Condition: workv1.ManifestComplete,
			Type: workv1.CelConditionExpressionsType, CelExpressions: []string{"true"}}}
	}
	refused := func(o *spoke.Outcome) { o.Err, o.Live = errors.New("no"), nil }
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	serve := func(outcomes ...spoke.Outcome) (applied bool) {
		r := result(outcomes...)
		for i := range r.Outcomes {
			r.Outcomes[i].Kept = status.Kept(w)(&r.Outcomes[i].Manifest)
		}
		w.Status, _ = b.Next(t.Context(), w, r, start)
		if !meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkComplete) {
			t.Errorf("the work: %s", said(w.Status.Conditions))
		}
		return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
	}
	for range 2 {
		for range 2 { // in the second pass the work is already complete
			if serve(outcome("a", done), outcome("b", refused)) || kept(w, "b", nil) {
				t.Errorf("generation %d: %s, b is kept: %v", w.Generation, said(w.Status.Conditions), kept(w, "b", nil))
			}
		}
		if !serve(outcome("a", done), outcome("b", nil)) || !kept(w, "b", nil) {
			t.Errorf("generation %d: %s, b is kept: %v", w.Generation, said(w.Status.Conditions), kept(w, "b", nil))
		}
		w.Generation++
	}
}

func kept(w *workv1.ManifestWork, name string, change func(*spoke.Outcome)) bool {
	o := outcome(name, change)
	return status.Kept(w)(&o.Manifest)
}

// TestMessages checks that the messages of a work report its errors and the resources that are
// being removed.
func TestMessages(t *testing.T) {
	w := &workv1.ManifestWork{}
	failed := func(o *spoke.Outcome) { o.Err = errors.New(strings.Repeat("no ", 2000)) }
	for _, tt := range []struct {
		name, condition, want string
		result                *spoke.Result
	}{
		{"one", workv1.WorkApplied, "Failed to apply manifest work: manifest 1, Deployment.apps n/b: no no",
			result(outcome("a", nil), outcome("b", failed))},
		{"two", workv1.WorkApplied,
			"Failed to apply manifest work: 2 of 3 manifests, the first being manifest 0, Deployment.apps n/a: no no",
			result(outcome("a", failed), outcome("b", failed), outcome("c", nil))},
		{"one that could not be decoded", workv1.WorkApplied, "manifest 0: no",
			result(outcome("a", func(o *spoke.Outcome) { failed(o); o.Object, o.Key, o.Live = nil, appliedwork.Key{}, nil }))},
		{"all", workv1.WorkApplied, "Failed to apply manifest work: away", &spoke.Result{Err: errors.New("away")}},
		{"none", workv1.WorkAvailable, "There are no resources", result()},
		{"leaving", workv1.WorkProgressing, "1 resources that were removed from the work are being deleted",
			&spoke.Result{Leaving: spoke.Targets{{}: ""}}},
		{"held", workv1.WorkProgressing, "still exist: in use", &spoke.Result{PruneErr: errors.New("in use")}},
	} {
		next, _ := builder(t).Next(t.Context(), w, tt.result, start)
		c := meta.FindStatusCondition(next.Conditions, tt.condition)
		if c == nil || !strings.Contains(c.Message, tt.want) || len(c.Message) > 2100 {
			t.Errorf("%s: %.200v", tt.name, c)
		}
	}
}

// TestValues checks that the values of an object stay while it cannot be read, and are removed when
// the object is gone.
func TestValues(t *testing.T) {
	rules := func(o *spoke.Outcome) {
		o.Config.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}}
	}
	w := &workv1.ManifestWork{}
	w.Status, _ = builder(t).Next(t.Context(), w, result(outcome("a", rules)), start)
	for name, tt := range map[string]struct {
		change func(*spoke.Outcome)
		want   int
	}{
		"read":           {rules, 3},
		"not to be read": {func(o *spoke.Outcome) { rules(o); o.Live, o.ReadErr = nil, errors.New("no") }, 3},
		"gone":           {func(o *spoke.Outcome) { rules(o); o.Live = nil }, 0},
		"not wanted":     {nil, 0},
	} {
		next, _ := builder(t).Next(t.Context(), w, result(outcome("a", tt.change)), start)
		if got := len(next.ResourceStatus.Manifests[0].StatusFeedbacks.Values); got != tt.want {
			t.Errorf("%s: %d values, want %d", name, got, tt.want)
		}
	}
}

// TestUnreachableAPIServer checks that an API server that does not answer is reported as such, and
// that the manifests which were applied before keep their conditions.
func TestUnreachableAPIServer(t *testing.T) {
	frozen := &url.Error{Op: "Patch", URL: "https://cluster", Err: context.DeadlineExceeded}
	fails := func(o *spoke.Outcome) { o.Err, o.ReadErr, o.Live = frozen, frozen, nil }
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	w.Status, _ = builder(t).Next(t.Context(), w, result(outcome("a", nil)), start)
	failed := result(outcome("a", fails))
	failed.Err = frozen
	for _, tt := range []struct {
		reason     string
		generation int64
		want       []string // conditions of the manifest and of the work
	}{
		{"applied before", 1, []string{"Applied=True(AppliedManifestComplete) Available=Unknown(ClusterUnreachable)",
			"Progressing=False(Completed) Degraded=False(AsDesired)",
			"Applied=True(AppliedManifestWorkComplete) Available=Unknown(ClusterUnreachable)"}},
		{"a new generation", 2, []string{"Applied=Unknown(ClusterUnreachable) Available=Unknown(ClusterUnreachable)",
			"Applied=Unknown(ClusterUnreachable) Available=Unknown(ClusterUnreachable)"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			w.Generation = tt.generation
			next, _ := builder(t).Next(t.Context(), w, failed, start.Add(time.Hour))
			got := said(next.ResourceStatus.Manifests[0].Conditions) + "\n" + said(next.Conditions)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
}
