// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// executors: a service account may do what its rights allow, also for deletion.
func executors(s *scene) {
	user := "system:serviceaccount:" + s.ns + ":deployer"
	s.existing(fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"deployer","namespace":%q}}`,
		s.ns))
	role := func(resources, verbs string) string {
		return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"deployer","namespace":%q},"rules":[{"apiGroups":[""],"resources":%s,"verbs":%s}]}`, s.ns, resources, verbs)
	}
	grant := func(resources, verbs string) {
		s.t.Helper()
		s.by("admin", role(resources, verbs), role(resources, verbs))
	}
	s.existing(role(`["configmaps"]`, `["get","list","create","patch","delete"]`))
	s.existing(fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"deployer","namespace":%q},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"deployer"},"subjects":[{"kind":"ServiceAccount","name":"deployer","namespace":%q}]}`, s.ns, s.ns))
	secret := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"denied","namespace":%q}}`, s.ns)

	s.create("w", s.sample("executor.yaml"))
	s.until("w", "reports the denial", func(w *workv1.ManifestWork) error {
		denied := "the executor " + user + " is not allowed to: "
		return errors.Join(
			has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse, denied),
			has(w.Status.Conditions, workv1.WorkAvailable, metav1.ConditionUnknown, ""),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionTrue, ""),
			has(w.Status.ResourceStatus.Manifests[1].Conditions, workv1.ManifestApplied, metav1.ConditionFalse, denied),
			has(w.Status.ResourceStatus.Manifests[1].Conditions, workv1.ManifestAvailable, metav1.ConditionUnknown, denied),
		)
	})
	s.absent(secret)
	// Kubernetes' garbage collector would delete it with the AppliedWork, but the executor may not
	// delete it.
	grant(`["configmaps","secrets"]`, `["get","list","create","patch"]`)
	s.until("w", "reports that the executor may not delete", func(w *workv1.ManifestWork) error {
		return has(w.Status.ResourceStatus.Manifests[1].Conditions, workv1.ManifestApplied, metav1.ConditionFalse,
			`user "`+user+`" cannot delete resource "secrets"`)
	})
	s.absent(secret)
	grant(`["configmaps","secrets"]`, `["get","list","create","patch","delete"]`)
	s.applied("w")
	s.owns("w", s.configMap("allowed", ""), secret)

	grant(`["configmaps","secrets"]`, `["get","list","create","patch"]`)
	s.delete("w")
	eventually(s.t, "the denied deletion is reported", func() error {
		w, err := s.work("w")
		if err != nil {
			return err
		}
		return has(w.Status.Conditions, workv1.WorkDeleting, metav1.ConditionTrue, "cannot delete resource")
	})
	if s.get(secret) == nil || s.value("allowed") != "1" {
		s.t.Error("something was deleted by somebody else")
	}
	grant(`["configmaps","secrets"]`, `["get","list","create","patch","delete"]`)
	s.gone("w")
	s.absent(secret, s.configMap("allowed", ""))

	// An object that stays when the work ends needs no right to delete.
	grant(`["configmaps"]`, `["get","list","create","patch"]`)
	work := s.sample("executor.yaml")
	work.Workload = spec(s.configMap("kept", "1")).Workload
	work.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	s.create("kept", work)
	s.applied("kept")
	s.delete("kept")
	s.gone("kept")
	if s.value("kept") != "1" {
		s.t.Error("the object is gone")
	}

	// An executor may neither read nor change the records of other works.
	s.create("other", spec(s.configMap("other", "1")))
	s.applied("other")
	record := s.record("other")
	theirs := fmt.Sprintf(
		`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"AppliedWork","metadata":{"name":%q,"labels":{"changed":"1"}}}`, record.Name)
	work = s.sample("executor.yaml")
	work.Workload = spec(theirs).Workload
	s.create("records", work)
	s.until("records", "reports the denial", func(w *workv1.ManifestWork) error {
		denied := "the executor " + user + " is not allowed to: "
		return errors.Join(
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse, denied),
			has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestAvailable, metav1.ConditionUnknown, denied),
		)
	})
	if now := s.record("other"); now.UID != record.UID || now.Labels["changed"] != "" {
		s.t.Errorf("the record of another work is %+v", now)
	}

	// The executor must be named.
	work = spec(s.configMap("c", "1"))
	work.Executor = &workv1.ManifestWorkExecutor{
		Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount},
	}
	s.create("nobody", work)
	s.until("nobody", "reports the executor", func(w *workv1.ManifestWork) error {
		return has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse,
			"spec.executor.subject.serviceAccount needs")
	})
	s.absent(s.configMap("c", ""))
	s.delete("nobody")
	eventually(s.t, "nobody is gone", func() error {
		if _, err := s.work("nobody"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
