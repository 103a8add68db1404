// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter/workhealth"
)

// TestDeadline checks that an object is Progressing before it is Degraded.
func TestDeadline(t *testing.T) {
	now := time.Now()
	v := workhealth.ObjectStatus{Status: workhealth.Status{Sync: workhealth.SyncSynced,
		Health: workhealth.HealthProgressing, Reason: "0 of 2 replicas available", Since: now}}
	for after, want := range map[time.Duration]workhealth.Health{
		time.Second:                     workhealth.HealthProgressing,
		workhealth.ProgressDeadline:     workhealth.HealthProgressing,
		workhealth.ProgressDeadline + 1: workhealth.HealthDegraded,
	} {
		got := v.At(now.Add(after), workhealth.ProgressDeadline)
		if got.Health != want || !strings.HasPrefix(got.Reason, "0 of 2 replicas available") ||
			strings.Contains(got.Reason, "for longer than 5m") != (want == workhealth.HealthDegraded) {
			t.Errorf("after %s: %+v, want %s", after, got, want)
		}
	}
	v.Health = workhealth.HealthSuspended
	if got := v.At(now.Add(time.Hour), workhealth.ProgressDeadline); got.Health != workhealth.HealthSuspended {
		t.Errorf("a suspended object: %+v", got)
	}
}

// TestStatuses checks the statuses of objects by what their agents report.
func TestStatuses(t *testing.T) {
	paused := strings.Replace(deployment, `"spec":{`, `"spec":{"paused":true,`, 1)
	const ready = `{"replicas":1,"updatedReplicas":1,"availableReplicas":1,"readyReplicas":1}`
	const exceeded = `{"replicas":1,"updatedReplicas":1,"conditions":[{"type":"Progressing","status":"False",` +
		`"reason":"ProgressDeadlineExceeded","message":"ReplicaSet \"web\" has timed out progressing."}]}`
	for reason, tt := range map[string]struct {
		manifest, status string
		change           func(*workv1.ManifestCondition)
		want             string
	}{
		"healthy":  {deployment, ready, nil, "web Healthy"},
		"replicas": {deployment, `{"replicas":1,"updatedReplicas":1}`, nil, "web Progressing 0 of 1 replicas available"},
		"none yet": {deployment, `{"replicas":0}`, nil, "web Progressing 0 of 1 replicas created"},
		"failed":   {deployment, exceeded, nil, "web Degraded Progress deadline exceeded"},
		"degraded for its agent": {deployment, `{"replicas":1}`,
			condition(workv1.ManifestDegraded, metav1.ConditionTrue, "X"),
			"web Degraded 0 of 1 replicas updated"},
		"paused": {paused, ready, nil, "web Suspended it is paused by its manifest"},
		"missing": {configMap, "applied", condition(workv1.ManifestAvailable, metav1.ConditionFalse, "ResourceNotAvailable"),
			"m Missing it does not exist on the cluster"},
		"unreachable": {configMap, "applied",
			condition(workv1.ManifestAvailable, metav1.ConditionUnknown, workhealth.ReasonClusterUnreachable),
			"m Unknown its cluster cannot be read"},
		"refused": {configMap, "refused", nil, "m Degraded Because: so"},
		"refused with a long message": {configMap, "refused",
			func(c *workv1.ManifestCondition) { c.Conditions[0].Message = strings.Repeat("x", 32<<10) },
			"m Degraded Because: " + strings.Repeat("x", 1024-len("Because: …")) + "…"},
	} {
		t.Run(reason, func(t *testing.T) {
			f := newFixture(t)
			w := f.put("w", []string{tt.manifest}, []string{tt.status})
			if tt.change != nil {
				tt.change(&w.Status.ResourceStatus.Manifests[0])
				if _, err := f.works.WorkV1().ManifestWorks("c1").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			f.is(tt.want)
		})
	}
}

// condition returns a function that adds a condition.
func condition(kind string, s metav1.ConditionStatus, reason string) func(*workv1.ManifestCondition) {
	return func(c *workv1.ManifestCondition) {
		c.Conditions = append(c.Conditions, metav1.Condition{Type: kind, Status: s, Reason: reason})
	}
}

// TestUnreachable checks that a cluster that does not answer is not an agent that refuses a work.
func TestUnreachable(t *testing.T) {
	w := workhealth.Work{ManifestWork: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 3}}}
	if w.Joined() || w.Unreachable() != "" {
		t.Error("a work without a report")
	}
	for _, kind := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
		w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionUnknown,
			ObservedGeneration: 3, Reason: workhealth.ReasonClusterUnreachable, Message: "no answer"})
	}
	if got, _ := w.Progress(); got != workhealth.ProgressWaiting || w.Unreachable() != "no answer" || !w.Joined() {
		t.Errorf("%s, %q, joined: %v", got, w.Unreachable(), w.Joined())
	}
}
