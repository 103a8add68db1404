// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// strategies: each update strategy works, and ignored fields stay with other managers.
func strategies(s *scene) {
	web := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":%q}}`, s.ns)
	s.existing(s.configMap("created-once", "theirs"))
	s.existing(s.configMap("only-read", "theirs"))
	work := s.sample("update-strategies.yaml")
	s.create("w", work)
	s.applied("w")
	once := []string{s.configMap("created-once", "")} // it existed before
	record := s.ownsBut("w", once, web, s.configMap("updated", ""))
	if got := s.value("created-once") + " " + s.value("only-read") + " " + s.value("updated"); got != "theirs theirs 1" {
		s.t.Errorf("the values are %s", got)
	}
	if owners := s.get(s.configMap("only-read", "")).GetOwnerReferences(); len(owners) > 0 {
		s.t.Errorf("what is only read is owned by %v", owners)
	}
	manager := "work-agent-shop-" + string(record.UID)
	if entries := s.get(web).GetManagedFields(); entries[0].Manager != manager {
		s.t.Errorf("the field manager is %q, want %q", entries[0].Manager, manager)
	}
	change := func(replacements ...string) {
		s.update("w", func(spec *workv1.ManifestWorkSpec) {
			for i := range spec.Workload.Manifests {
				raw := &spec.Workload.Manifests[i].Raw
				*raw = []byte(strings.NewReplacer(replacements...).Replace(string(*raw)))
			}
		})
	}
	deployment := func(replicas int64, paused any, log, image string) {
		s.t.Helper()
		live := s.get(web)
		containers := []string{"spec", "template", "spec", "containers"}
		got := []any{field(live, "spec", "replicas"), field(live, "spec", "paused"),
			field(live, append(containers, "log", "image")...), field(live, append(containers, "web", "image")...)}
		if want := []any{replicas, paused, "registry.example/log:" + log, "registry.example/" + image}; fmt.Sprint(
			got) != fmt.Sprint(want) {
			s.t.Errorf("the deployment has %v, want %v", got, want)
		}
	}
	deployment(2, nil, "1", "web:1")

	// Without other changes, replicas and paused still stay, and the images change.
	change(`"replicas":2`, `"replicas":3`, "log:1", "log:2", "web:1", "web:2", `"value":"1"`, `"value":"2"`,
		`"paused":false`, `"paused":true`)
	s.applied("w")
	deployment(2, nil, "2", "web:2")
	if got := s.value("created-once") + " " + s.value("updated"); got != "theirs 2" {
		s.t.Errorf("the values are %s", got)
	}

	// An autoscaler and an operator make changes, and somebody changes fields that are updated with
	// force.
	s.by("autoscaler", web, `{"spec":{"replicas":7}}`, "scale")
	s.by("operator", web,
		fmt.Sprintf(`{"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"log","image":"registry.example/log:2"},{"name":"web","image":%q}]}}}}`, "registry.example/patched"))
	s.by("somebody", s.configMap("updated", ""), `{"data":{"value":"theirs","more":"theirs"}}`)
	eventually(s.t, "what was changed is as the work wants it", func() error {
		if s.value("updated") != "2" || field(s.get(s.configMap("updated", "")), "data", "more") != "theirs" {
			return errors.New("it is not")
		}
		return nil
	})
	s.applied("w")
	deployment(7, true, "2", "patched")
	change("log:2", "log:3", "web:2", "web:3")
	s.applied("w")
	deployment(7, true, "3", "patched")

	// An object that becomes read-only is released, and stays when the work ends.
	s.update("w", func(spec *workv1.ManifestWorkSpec) {
		spec.ManifestConfigs = append(spec.ManifestConfigs, s.configure("updated", func(o *workv1.ManifestConfigOption) {
			o.UpdateStrategy = &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}
		}))
	})
	s.applied("w")
	s.ownsBut("w", once, web)
	s.delete("w")
	s.gone("w")
	s.absent(web)
	if got := s.value("updated") + " " + s.value("only-read") + " " + s.value("created-once"); got != "2 theirs theirs" {
		s.t.Errorf("the values are %s", got)
	}
}

// conflicts: a server-side apply that meets the fields of others reports a conflict, until it is
// forced.
func conflicts(s *scene) {
	s.existing(s.configMap("c", "theirs"))
	work := spec(s.configMap("c", "ours"), s.configMap("d", "ours"))
	ssa := &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}
	work.ManifestConfigs = []workv1.ManifestConfigOption{
		s.configure("c", func(o *workv1.ManifestConfigOption) { o.UpdateStrategy = ssa }),
	}
	s.create("w", work)
	s.until("w", "reports the conflict", func(w *workv1.ManifestWork) error {
		return errors.Join(
			has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse, `manifest 0: ConfigMap `),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse, "ApplyConflict"),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse, "somebody"),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse,
				"updateStrategy.serverSideApply.force"),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestAvailable, metav1.ConditionTrue, ""),
			has(w.Status.ResourceStatus.Manifests[1].Conditions, workv1.ManifestApplied, metav1.ConditionTrue, ""),
		)
	})
	if s.value("c") != "theirs" {
		s.t.Errorf("the value is %s", s.value("c"))
	}
	s.update("w", func(spec *workv1.ManifestWorkSpec) {
		spec.ManifestConfigs[0].UpdateStrategy.ServerSideApply = &workv1.ServerSideApplyConfig{Force: true,
			FieldManager: "work-agent"}
	})
	s.applied("w")
	if s.value("c") != "ours" {
		s.t.Errorf("the value is %s", s.value("c"))
	}

	// An invalid path is reported, and the last good state stays.
	s.update("w", func(spec *workv1.ManifestWorkSpec) {
		*spec = *spec.DeepCopy()
		spec.Workload.Manifests[0].Raw = []byte(s.configMap("c", "newer"))
		spec.ManifestConfigs[0].UpdateStrategy.ServerSideApply.IgnoreFields = []workv1.IgnoreField{
			{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: []string{".data |"}},
		}
	})
	s.until("w", "reports the path", func(w *workv1.ManifestWork) error {
		return has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse,
			workv1.AppliedManifestSSAIgnoreFieldError)
	})
	if s.value("c") != "ours" {
		s.t.Errorf("the value is %s", s.value("c"))
	}
}
