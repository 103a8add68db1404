// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/hub/internal/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
)

// TestProgress checks that conditions of an earlier generation are ignored.
func TestProgress(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, Reason: kind + string(status),
			Message: "so"}
	}
	refused := []health.Verdict{{}, {Status: status.Status{Sync: status.OutOfSync, Health: status.Degraded,
		Reason: "no room"}}}
	refused[1].Object.Kind, refused[1].Object.Namespace, refused[1].Object.Name = "ConfigMap", "x", "a"
	for name, tt := range map[string]struct {
		conditions []metav1.Condition
		change     func(*health.Work)
		want       health.Progress
		message    string
	}{
		"nothing was said": {nil, nil, health.Waiting, ""},
		"of before":        {[]metav1.Condition{condition(workv1.WorkApplied, yes, 2)}, nil, health.Waiting, ""},
		"refused before":   {[]metav1.Condition{condition(workv1.WorkApplied, no, 2)}, nil, health.Waiting, ""},
		"applied":          {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3)}, nil, health.Current, ""},
		"not even the newest": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3)},
			func(w *health.Work) { w.Behind = true }, health.Waiting, ""},
		"being deleted": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3)}, func(w *health.Work) {
			w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, health.Waiting, ""},
		"refused": {[]metav1.Condition{condition(workv1.WorkApplied, no, 3)}, nil, health.Refused,
			"AppliedFalse: so"},
		"an object refused": {[]metav1.Condition{condition(workv1.WorkApplied, no, 3)},
			func(w *health.Work) { w.Objects = refused }, health.Refused, "ConfigMap x/a: no room"},
		"degraded": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3),
			condition(workv1.WorkDegraded, yes, 3)}, nil, health.Degraded, "DegradedTrue: so"},
		"degraded before": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3),
			condition(workv1.WorkDegraded, yes, 2)}, nil, health.Current, ""},
		"degraded no more": {[]metav1.Condition{condition(workv1.WorkApplied, yes, 3),
			condition(workv1.WorkDegraded, no, 3)}, nil, health.Current, ""},
		"refused as degraded": {[]metav1.Condition{condition(workv1.WorkApplied, no, 3),
			condition(workv1.WorkDegraded, yes, 3)}, nil, health.Refused, "AppliedFalse: so"},
	} {
		w := health.Work{ManifestWork: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 3}}}
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
	progress := func() health.Progress {
		all := f.tracker.Works()
		if len(all) != 1 {
			t.Fatalf("%d works", len(all))
		}
		p, _ := all[0].Progress()
		return p
	}
	for end := time.Now().Add(30 * time.Second); progress() != health.Current; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the informer has caught up with is never current")
		}
	}
	f.stop() // the informer receives no more events
	w.Generation = 2
	if _, err := works.Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := progress(); got != health.Waiting {
		t.Errorf("what was written is %s", got)
	}
	if err := works.Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := progress(); got != health.Current {
		t.Errorf("what was written before it was deleted is still waited for: %s", got)
	}
}

// TestLeaving checks that Leaving reports whether a work of a cluster is being deleted.
func TestLeaving(t *testing.T) {
	f := newFixture(t)
	w := f.put("w", []string{configMap}, []string{"applied"})
	f.is("m Healthy")
	if f.tracker.Leaving("c1") {
		t.Error("it is said of a work that stays")
	}
	w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if _, err := f.works.WorkV1().ManifestWorks("c1").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !f.tracker.Leaving("c1"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not said of a work that is being deleted")
		}
	}
	if f.tracker.Leaving("c2") {
		t.Error("it is said of another cluster")
	}
}
