// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// other returns a second AppliedWork with applied objects.
func (s *scene) other(objects ...*unstructured.Unstructured) *v1alpha1.AppliedWork {
	s.t.Helper()
	work, err := s.tracker.Ensure(s.t.Context(), "other", v1alpha1.AppliedWorkSpec{WorkName: "other"})
	if err != nil {
		s.t.Fatal(err)
	}
	opts := appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}
	if _, err := s.applier.Apply(s.t.Context(), work, objects, opts); err != nil {
		s.t.Fatal(err)
	}
	return work
}

// kept returns a second AppliedWork with policies that keep its objects.
func (s *scene) kept(policies appliedwork.Policies, objects ...*unstructured.Unstructured) *v1alpha1.AppliedWork {
	s.t.Helper()
	work := s.other()
	opts := appliedwork.ApplyOptions{Policies: policies}
	if _, err := s.applier.Apply(s.t.Context(), work, objects, opts); err != nil {
		s.t.Fatal(err)
	}
	return work
}

// end starts to end an AppliedWork: the AppliedWork is marked, and its process dies before the
// first other write.
func (s *scene) end(work *v1alpha1.AppliedWork, policies appliedwork.Policies) {
	s.t.Helper()
	died := errors.New("the process has died")
	s.fail = func(method, path string) error {
		if method != http.MethodGet && path != inventory+work.Name && path != inventory+work.Name+"/status" {
			return died
		}
		return nil
	}
	opts := appliedwork.TeardownOptions{Policies: policies}
	if _, err := s.collector.Teardown(s.t.Context(), work, opts); !errors.Is(err, died) {
		s.t.Fatal(err)
	}
	s.fail = nil
}

// TestTeardownOfSharedObjects tests two AppliedWorks with the same objects while one of them ends.
func TestTeardownOfSharedObjects(t *testing.T) {
	a := manifest("a", "1")
	ns := object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`)
	orphan := appliedwork.Policies{Default: appliedwork.PolicyOrphan}
	adopts := appliedwork.ApplyOptions{
		Adoption: appliedwork.AdoptionIfUnowned, Policies: appliedwork.Policies{Adopted: appliedwork.PolicyDelete},
	}
	teardown := func(s *scene, work *v1alpha1.AppliedWork, policies appliedwork.Policies) {
		s.t.Helper()
		if _, err := s.collector.Teardown(s.t.Context(), work, appliedwork.TeardownOptions{Policies: policies}); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, test := range map[string]func(*scene){
		"an object that its policy keeps stays": func(s *scene) {
			other := s.other(a)
			if _, err := s.apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}, a); err != nil {
				s.t.Fatal(err)
			}
			s.end(other, orphan)
			if changes, err := s.prune(); err != nil || changes.String() != "1 released" {
				s.t.Errorf("%v, %v", changes, err)
			}
			if teardown(s, other, orphan); !s.exists(shop + "a") {
				s.t.Error("the object was deleted")
			}
		},
		"an object that its policy keeps stays when the AppliedWork is gone": func(s *scene) {
			other := s.other(a)
			if _, err := s.apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}, a); err != nil {
				s.t.Fatal(err)
			}
			teardown(s, other, orphan)
			if changes, err := s.prune(); err != nil || !s.exists(shop+"a") {
				s.t.Errorf("the object was deleted: %v, %v", changes, err)
			}
		},
		"the namespace of an object that its policy keeps stays": func(s *scene) {
			s.mustApply(ns)
			other := s.other(a, manifest("b", "1"))
			rule := appliedwork.OrphanRule{Resource: "configmaps", Namespace: "shop", Name: "a"}
			s.end(other, appliedwork.Policies{
				Default: appliedwork.PolicySelectivelyOrphan, Orphans: []appliedwork.OrphanRule{rule},
			})
			var blocked *appliedwork.PruneBlockedError
			_, err := s.prune()
			if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonNamespaceInUse || !s.exists(spaces+"shop") {
				s.t.Errorf("%v, want a PruneBlockedError", err)
			}
		},
		"a changed policy takes effect": func(s *scene) {
			s.mustApply(ns)
			other := s.other(a)
			s.end(other, orphan)
			s.end(other, appliedwork.Policies{})
			if _, err := s.prune(); err != nil || s.exists(spaces+"shop") {
				s.t.Error(err)
			}
		},
		"a deleted object keeps no namespace": func(s *scene) {
			s.mustApply(ns)
			s.end(s.other(a), appliedwork.Policies{})
			if _, err := s.prune(); err != nil || s.exists(spaces+"shop") {
				s.t.Error(err)
			}
		},
		"annotations of a deleted AppliedWork do not bind its successor": func(s *scene) {
			s.kept(orphan, a)
			delete(s.objects, inventory+"other")
			changes, err := s.apply(adopts, a)
			live := &unstructured.Unstructured{Object: s.objects[shop+"a"]}
			ours := appliedwork.IsOwnedBy(live, s.work.UID) && len(live.GetAnnotations()) == 2
			if err != nil || changes.String() != "1 adopted" || !ours {
				s.t.Errorf("%v, %v: %v", changes, err, live)
			}
			opts := appliedwork.PruneOptions{AllowEmpty: true, Policies: adopts.Policies}
			if _, err := s.pruner.Prune(s.t.Context(), s.work, nil, opts); err != nil || s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"annotations of an existing AppliedWork count": func(s *scene) {
			other := s.kept(orphan, a)
			changes, err := s.apply(adopts, a)
			live := &unstructured.Unstructured{Object: s.objects[shop+"a"]}
			kept := live.GetAnnotations()[v1alpha1.AnnotationKeptPrefix+string(other.UID)]
			if err != nil || changes.String() != "1 adopted" || len(live.GetOwnerReferences()) > 0 || kept != "true" {
				s.t.Errorf("%v, %v: %v", changes, err, live)
			}
		},
		"an adoption fails if the AppliedWorks cannot be listed": func(s *scene) {
			s.kept(orphan, a)
			delete(s.objects, inventory+"other")
			s.fail = func(method, path string) error {
				if method == http.MethodGet && path+"/" == inventory {
					return errors.New("timeout")
				}
				return nil
			}
			if changes, err := s.apply(adopts, a); err == nil || changes.String() != "1 failed" || s.recorded("a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a released object belongs to the other AppliedWork": func(s *scene) {
			other := s.other(a)
			if _, err := s.apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionAlways}, a); err != nil {
				s.t.Fatal(err)
			}
			if _, err := s.collector.Release(s.t.Context(), other, appliedwork.ReleaseOptions{}); err != nil {
				s.t.Fatal(err)
			}
			if changes, err := s.prune(); err != nil || changes.String() != "1 deleted" {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}
