// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestPruneIsSafe tests the safety rules of Prune.
func TestPruneIsSafe(t *testing.T) {
	a, b := manifest("a", "1"), manifest("b", "1")
	thing := of("example.com/v1", "Thing", "shop", "x")
	for name, test := range map[string]func(*scene){
		"a manifest that cannot be decoded is desired": func(s *scene) {
			s.mustApply(a, b)
			if _, err := s.prune(b, nil); err == nil || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"a manifest that cannot be mapped is desired": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			process := appliedwork.NewPruner(newProcess(s))
			s.ask = func() error { s.ask = nil; return apierrors.NewServiceUnavailable("discovery") }
			if _, err := process.Prune(s.t.Context(), s.work, []*unstructured.Unstructured{thing},
				appliedwork.PruneOptions{}); err != nil || !s.exists(things+"x") {
				s.t.Error(err)
			}
		},
		"an object with a new owner is not deleted": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodDelete, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) {
					obj.SetOwnerReferences(
						append(obj.GetOwnerReferences(), co))
				})
			})
			if _, err := s.prune(); err != nil || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"a changed object is read and decided about again": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodDelete, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"by": "them"}) })
			})
			if changes, err := s.prune(); err != nil || !changes.Done() || s.exists(shop+"a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"an object that another AppliedWork is about to apply is not deleted": func(s *scene) {
			s.mustApply(a)
			other, err := s.tracker.Ensure(s.t.Context(), "other", v1alpha1.AppliedWorkSpec{WorkName: "other"})
			if err != nil {
				s.t.Fatal(err)
			}
			if err := s.tracker.RecordIntent(s.t.Context(), other,
				identifier("", "v1", "ConfigMap", "configmaps", "shop", "a")); err != nil {
				s.t.Fatal(err)
			}
			if _, err := s.prune(); err != nil || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"a denied deletion keeps its entry, and stops no other": func(s *scene) {
			s.mustApply(a, b)
			denied := errors.New("denied")
			s.fail = func(method, path string) error {
				if method == http.MethodDelete && path == shop+"a" {
					return denied
				}
				return nil
			}
			if _, err := s.prune(); !errors.Is(err, denied) || !s.recorded("a") || s.exists(shop+"b") {
				s.t.Errorf("%v, recorded %v", err, s.recorded("a"))
			}
		},
		"an entry stays until its object is gone": func(s *scene) {
			held := a.DeepCopy()
			held.SetFinalizers([]string{"example.com/hold"})
			s.mustApply(held)
			for range 2 {
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("a") {
					s.t.Errorf("%v, %v, recorded %v", changes, err, s.recorded("a"))
				}
			}
		},
		"an intent stays while a request may be in progress": func(s *scene) {
			if err := s.tracker.RecordIntent(s.t.Context(), s.work,
				identifier("", "v1", "ConfigMap", "configmaps", "shop", "a")); err != nil {
				s.t.Fatal(err)
			}
			if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a 404 without an object does not mean that the object is gone": func(s *scene) {
			s.mustApply(a)
			s.away = func(path string) bool { return strings.HasPrefix(path, shop) } // discovery has not noticed
			if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("a") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a kind that is not served for a moment is not gone": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.serveThings()
			for range 5 {
				s.clock.SetTime(s.clock.Now().Add(10 * time.Second)) // within the grace period
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("x") {
					s.t.Errorf("%v, %v", changes, err)
				}
			}
		},
		"a kind is gone only after several answers of discovery": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.serveThings()
			for range 2 {
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("x") {
					s.t.Errorf("%v, %v", changes, err)
				}
			}
		},
		"a kind with an existing CRD is not gone": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(thing)
			s.serveThings()
			s.put(crds+"things.example.com", crdOfThings(), "crd")
			for range 5 {
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
				if changes, err := s.prune(); err != nil || changes.Done() || !s.recorded("x") {
					s.t.Errorf("%v, %v", changes, err)
				}
			}
		},
		"an object is found in another served version": func(s *scene) {
			s.serveThings("v1", "v2")
			s.mustApply(of("example.com/v2", "Thing", "shop", "x"))
			s.serveThings("v1")
			_, _ = s.prune() // this call may find that discovery is outdated
			if changes, err := s.prune(); err != nil || !changes.Done() || s.exists(things+"x") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"the order is the reverse of apply": func(s *scene) {
			policy := of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "p")
			s.kinds["admissionregistration.k8s.io/v1"] = &metav1.APIResourceList{
				APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy"}},
			}
			s.serveThings("v1")
			s.mustApply(policy, thing, a, of("v1", "Namespace", "", "shop"))
			s.writes = nil
			if _, err := s.prune(); err != nil {
				s.t.Fatal(err)
			}
			s.writes = slices.DeleteFunc(s.writes, func(w string) bool { return !strings.HasPrefix(w, http.MethodDelete) })
			want := []string{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p", things + "x", shop + "a",
				spaces + "shop"}
			for i := range want {
				want[i] = http.MethodDelete + " " + want[i]
			}
			if !slices.Equal(s.writes, want) {
				s.t.Errorf("%q", s.writes)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}
