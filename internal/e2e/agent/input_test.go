// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// badInput: a manifest that cannot be applied is reported at its place, and all others are applied.
func badInput(s *scene) {
	s.create("w", spec(s.configMap("old", "1"), s.configMap("good", "1")))
	s.applied("w")
	kind := "Late" + strings.ToUpper(s.name[:1]) + s.name[1:]
	plural := strings.ToLower(kind) + "s"
	late := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":"l","namespace":%q}}`, kind, s.ns)
	bad := []struct{ manifest, want string }{
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, "set metadata.namespace"},
		{fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-","namespace":%q}}`, s.ns),
			"generateName"},
		{s.configMap("good", "2"), "same object as manifest 0"},
		{fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mistyped","namespace":%q},"data":{"value":{"a":1}}}`, s.ns), "data"},
		{s.configMap("large", strings.Repeat("x", 1<<20+1)), "1048576"},
		{s.configMap("Not_A_Name", "1"), "Not_A_Name"},
		{`{"apiVersion":"v1","kind":"List","items":[],"metadata":{"name":"x"}}`, "is not an object"},
		{late, "the cluster does not have the kind " + kind},
	}
	texts := []string{s.configMap("good", "1"), s.configMap("new", "1")}
	for _, b := range bad {
		texts = append(texts, b.manifest)
	}
	s.update("w", manifests(texts...))
	s.until("w", "reports what is wrong", func(w *workv1.ManifestWork) error {
		errs := []error{has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse,
			fmt.Sprintf("%d of %d manifests, the first being manifest 2, ", len(bad), len(texts)))}
		for i, m := range w.Status.ResourceStatus.Manifests {
			if i < 2 {
				errs = append(errs, has(m.Conditions, workv1.ManifestApplied, metav1.ConditionTrue, ""))
			} else {
				errs = append(errs, has(m.Conditions, workv1.ManifestApplied, metav1.ConditionFalse, bad[i-2].want))
			}
		}
		return errors.Join(errs...)
	})
	if got := s.value("good") + " " + s.value("new") + " " + s.value("old"); got != "1 1 1" {
		s.t.Errorf("the values are %s: what may be one of the unknown manifests is not deleted", got)
	}

	// A CRD that is created later is enough. Objects that left the work are pruned when all
	// manifests are known.
	s.update("w", manifests(s.configMap("good", "1"), late))
	s.until("w", "waits for the definition", func(w *workv1.ManifestWork) error {
		return has(w.Status.ResourceStatus.Manifests[1].Conditions, workv1.ManifestAvailable, metav1.ConditionUnknown,
			"IncompletedResourceMeta")
	})
	eventually(s.t, "what the work does not have is pruned", func() error {
		if s.get(s.configMap("old", "")) != nil || s.get(s.configMap("new", "")) != nil {
			return errors.New("it is there")
		}
		return nil
	})
	crd := s.existing(fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":%[1]q,"singular":%[3]q,"kind":%[2]q,"listKind":"%[2]sList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural, kind, strings.ToLower(kind)))
	s.applied("w")
	if record := s.record("w"); !appliedwork.IsOwnedBy(s.get(late), record.UID) ||
		!appliedwork.IsOwnedBy(s.get(s.configMap("good", "")), record.UID) {
		s.t.Error("they are not owned")
	}
	s.delete("w")
	s.gone("w")
	if err := s.resource(crd).Delete(s.t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		s.t.Error(err)
	}
}

// drift: objects that somebody changes or deletes are applied again, and the status reports the
// live state.
func drift(s *scene) {
	s.create("w", spec(s.configMap("a", "1"), s.configMap("b", "1")))
	s.applied("w")
	record := s.owns("w", s.configMap("a", ""), s.configMap("b", ""))
	for i, change := range []func(){
		func() { s.by("somebody", s.configMap("a", ""), `{"data":{"value":"theirs"}}`) },
		func() {
			obj := s.object(s.configMap("a", ""))
			if err := s.resource(obj).Delete(s.t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				s.t.Fatal(err)
			}
		},
		func() { s.by("somebody", s.configMap("a", ""), `{"metadata":{"ownerReferences":null}}`) },
	} {
		change()
		eventually(s.t, fmt.Sprintf("change %d is undone", i), func() error {
			live := s.get(s.configMap("a", ""))
			if live == nil || s.value("a") != "1" || len(live.GetOwnerReferences()) != 1 ||
				live.GetOwnerReferences()[0].UID != record.UID {
				return fmt.Errorf("it is %v", live)
			}
			return nil
		})
	}
	// A user who deletes the AppliedWork deletes its objects. While the work exists, the agent
	// creates them again.
	if err := s.admin.Resource(v1alpha1.GroupVersionResource).Delete(s.t.Context(), record.Name,
		metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the AppliedWork and its objects are back", func() error {
		now := s.record("w")
		if now == nil || now.UID == record.UID || len(now.Status.AppliedResources) != 2 {
			return fmt.Errorf("it is %+v", now)
		}
		for _, name := range []string{"a", "b"} {
			live := s.get(s.configMap(name, ""))
			if live == nil || live.GetDeletionTimestamp() != nil || len(live.GetOwnerReferences()) != 1 ||
				!appliedwork.IsOwnedBy(live, now.UID) {
				return fmt.Errorf("%s is %v", name, live)
			}
		}
		return nil
	})
	before := s.settled("w") // the status may show recreated objects a moment later
	writes := s.process.written()
	s.by("somebody", s.configMap("b", ""), `{"metadata":{"labels":{"theirs":"1"}}}`) // a field that the work does not set
	s.create("after", spec(s.configMap("c", "1")))
	s.applied("after")
	if after, err := s.work("w"); err != nil || after.ResourceVersion != before.ResourceVersion {
		s.t.Errorf("the status was written although nothing has changed: %v", err)
	}
	if n := s.process.written() - writes; n > 10 { // one of them records the owner of the AppliedWork
		s.t.Errorf("%d writes for one new work", n)
	}
}
