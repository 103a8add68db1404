// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter/workhealth"
)

// TestProgress checks that conditions of an earlier generation are ignored.
func TestProgress(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, Reason: kind + string(status),
			Message: "so"}
	}
	refused := []workhealth.ObjectStatus{{}, {Status: workhealth.Status{
		Sync: workhealth.SyncOutOfSync, Health: workhealth.HealthDegraded, Reason: "no room"}}}
	refused[1].Object.Kind, refused[1].Object.Namespace, refused[1].Object.Name = "ConfigMap", "x", "a"
	for name, tt := range map[string]struct {
		conditions []metav1.Condition
		change     func(*workhealth.Work)
		want       workhealth.Progress
		message    string
	}{
		"no report": {nil, nil, workhealth.ProgressWaiting, ""},
		"an earlier generation": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 2)}, nil,
			workhealth.ProgressWaiting, ""},
		"refused before": {[]metav1.Condition{condition(workv1.WorkApplied, no, 2)}, nil,
			workhealth.ProgressWaiting, ""},
		"applied": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3)}, nil, workhealth.ProgressCurrent, ""},
		"behind": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3)},
			func(w *workhealth.Work) { w.Behind = true }, workhealth.ProgressWaiting, ""},
		"being deleted": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3)}, func(w *workhealth.Work) {
			w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, workhealth.ProgressWaiting, ""},
		"refused": {[]metav1.Condition{condition(workv1.WorkApplied, no, 3)}, nil, workhealth.ProgressRefused,
			"AppliedFalse: so"},
		"an object refused": {[]metav1.Condition{condition(workv1.WorkApplied, no, 3)},
			func(w *workhealth.Work) { w.Objects = refused }, workhealth.ProgressRefused, "ConfigMap x/a: no room"},
		"degraded": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3),
			condition(workv1.WorkDegraded, yes, 3)}, nil, workhealth.ProgressDegraded, "DegradedTrue: so"},
		"degraded before": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3),
			condition(workv1.WorkDegraded, yes, 2)}, nil, workhealth.ProgressCurrent, ""},
		"not degraded": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3),
			condition(workv1.WorkDegraded, no, 3)}, nil, workhealth.ProgressCurrent, ""},
		"refused as degraded": {[]metav1.Condition{condition(workv1.WorkApplied, no, 3),
			condition(workv1.WorkDegraded, yes, 3)}, nil, workhealth.ProgressRefused, "AppliedFalse: so"},
	} {
		w := workhealth.Work{ManifestWork: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 3}}}
		w.Status.Conditions = tt.conditions
		if tt.change != nil {
			tt.change(&w)
		}
		if got, message := w.Progress(); got != tt.want || message != tt.message {
			t.Errorf("%s: %s %q, want %s %q", name, got, message, tt.want, tt.message)
		}
	}
}

// TestBehind checks that a work that was just written does not count as applied while the informer
// still has the old work.
func TestBehind(t *testing.T) {
	f := newFixture(t)
	applied := []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	w := f.put("w", []string{configMap}, []string{"applied"})
	f.is("m Healthy")
	w.Generation, w.Status.Conditions = 1, applied
	works := f.tracker.Writing(f.works.WorkV1()).ManifestWorks("c1")
	if _, err := works.Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	progress := func() workhealth.Progress {
		all := f.tracker.Works()
		if len(all) != 1 {
			t.Fatalf("%d works", len(all))
		}
		p, _ := all[0].Progress()
		return p
	}
	end := time.Now().Add(2 * time.Minute)
	for ; progress() != workhealth.ProgressCurrent; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a work that the informer has received is not current")
		}
	}
	f.stop() // the informer receives no more events
	w.Generation = 2
	if _, err := works.Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := progress(); got != workhealth.ProgressWaiting {
		t.Errorf("a newer work is %s", got)
	}
	if err := works.Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := progress(); got != workhealth.ProgressCurrent {
		t.Errorf("after its deletion: %s", got)
	}
}
