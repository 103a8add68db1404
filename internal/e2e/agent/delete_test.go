// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// deleteOptions checks which objects stay and which are deleted.
func deleteOptions(s *scene) {
	left := func(name string) {
		s.t.Helper()
		live := s.get(s.configMap(name, ""))
		if live == nil || len(live.GetOwnerReferences()) > 0 || len(live.GetAnnotations()) > 0 ||
			len(live.GetFinalizers()) > 0 {
			s.t.Errorf("what is to be left is %v", live)
		}
	}
	selective := s.sample("delete-options.yaml")
	s.create("selective", selective)
	s.applied("selective")
	s.delete("selective")
	s.gone("selective")
	left("stays")
	s.absent(s.configMap("goes", ""))

	// It also applies to objects that leave the work, and orphaned objects can be adopted.
	s.create("again", selective)
	s.applied("again")
	s.ownsBut("again", []string{s.configMap("stays", "")}, s.configMap("goes", ""))
	s.update("again", func(spec *workv1.ManifestWorkSpec) { spec.Workload.Manifests = nil })
	eventually(s.t, "what has left the work is gone or left", func() error {
		if s.get(s.configMap("goes", "")) != nil || len(s.get(s.configMap("stays", "")).GetOwnerReferences()) > 0 {
			return errors.New("it is not")
		}
		return nil
	})
	left("stays")

	orphan := spec(s.configMap("orphan", "1"), s.configMap("stays", "2"))
	orphan.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	s.create("orphan", orphan)
	s.applied("orphan")
	s.delete("orphan")
	s.gone("orphan")
	left("orphan")
	left("stays")

	// Two works share an object: it is deleted with the last work.
	s.create("one", spec(s.configMap("shared", "1")))
	s.applied("one")
	s.create("two", spec(s.configMap("shared", "1")))
	s.applied("two")
	s.delete("one")
	s.gone("one")
	s.owns("two", s.configMap("shared", ""))
	s.delete("two")
	s.gone("two")
	s.absent(s.configMap("shared", ""))

	// A blocked deletion is reported, and completes when possible.
	s.create("held", spec(s.configMap("held", "1")))
	s.applied("held")
	s.by("somebody", s.configMap("held", ""), `{"metadata":{"finalizers":["example.com/held"]}}`)
	s.delete("held")
	eventually(s.t, "what is still there is reported", func() error {
		w, err := s.work("held")
		if err != nil {
			return err
		}
		return has(w.Status.Conditions, workv1.WorkDeleting, metav1.ConditionTrue, "1 resource is still there")
	})
	s.by("somebody", s.configMap("held", ""), `{"metadata":{"finalizers":null}}`)
	s.gone("held")
	s.absent(s.configMap("held", ""))
}

// expiry: a finished work ends by itself. Before that, it is not touched.
func expiry(s *scene) {
	job := fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"migrate","namespace":%q}}`, s.ns)
	work := s.sample("job.yaml")
	ttl := int64(3)
	work.DeleteOption.TTLSecondsAfterFinished = &ttl
	work.Workload.Manifests = append(work.Workload.Manifests, spec(s.configMap("beside", "1")).Workload.Manifests...)
	s.create("job", work)
	s.applied("job")
	s.until("job", "is not complete", func(w *workv1.ManifestWork) error {
		return errors.Join(has(w.Status.Conditions, workv1.WorkComplete, metav1.ConditionFalse, "0 of 1"),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestComplete, metav1.ConditionFalse,
				"Job is not finished"))
	})
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	s.by("controller", job, fmt.Sprintf(`{"status":{"startTime":%q,"completionTime":%q,"succeeded":1,"uncountedTerminatedPods":{},"conditions":[
		{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":%q},{"type":"Complete","status":"True","lastTransitionTime":%q}]}}`, now, now, now, now), "status")
	if s.name == "mqtt" {
		w := s.until("job", "has expired", func(w *workv1.ManifestWork) error {
			return errors.Join(has(w.Status.Conditions, workv1.WorkComplete, metav1.ConditionTrue, "ManifestsComplete"),
				has(w.Status.Conditions, workv1.WorkAvailable, metav1.ConditionFalse, "TTLExpired"))
		})
		values, _ := json.Marshal(w.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values)
		if string(values) != `[{"name":"JobComplete","fieldValue":{"type":"String","string":"True"}},{"name":"JobSucceeded","fieldValue":{"type":"Integer","integer":1}}]` {
			s.t.Errorf("the values are %s", values)
		}
		finished := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkComplete).LastTransitionTime
		expired := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkAvailable).LastTransitionTime
		if d := expired.Sub(finished.Time).Seconds(); d < 3 {
			s.t.Errorf("it has expired %v s after it had finished", d)
		}
		eventually(s.t, "what the work has brought is gone", func() error {
			if s.get(job) != nil || s.get(s.configMap("beside", "")) != nil || s.record("job") != nil {
				return errors.New("it is there")
			}
			return nil
		})
		s.delete("job")
	}
	s.gone("job")
	s.absent(job, s.configMap("beside", ""))
}
