// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestApplyIsSafe tests the safety rules of Apply.
func TestApplyIsSafe(t *testing.T) {
	a := manifest("a", "1")
	for name, test := range map[string]func(*scene){
		"the intent is recorded before the first write": func(s *scene) {
			s.at(http.MethodPost, strings.TrimSuffix(shop, "/"), func(*http.Request, []byte) {
				entries, _, _ := unstructured.NestedSlice(s.objects[inventory+"w"], "status", "appliedResources")
				if len(entries) != 1 {
					s.t.Errorf("%d entries", len(entries))
				}
			})
			s.mustApply(a)
		},
		"the owner reference is in the same request": func(s *scene) {
			s.at(http.MethodPost, strings.TrimSuffix(shop, "/"), func(_ *http.Request, body []byte) {
				if !bytes.Contains(body, []byte(`"uid":"`+string(s.work.UID)+`"`)) {
					s.t.Errorf("%s", body)
				}
			})
			s.mustApply(a)
		},
		"owner references of a manifest to AppliedWorks are not applied": func(s *scene) {
			foreign := a.DeepCopy()
			foreign.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "w", UID: "of-another-cluster"},
				{APIVersion: "v1", Kind: "ConfigMap", Name: "b", UID: "b"},
			})
			for policy, owners := range map[appliedwork.Policy][]types.UID{
				appliedwork.PolicyOrphan: {"b"}, appliedwork.PolicyDelete: {"b", s.work.UID},
			} {
				delete(s.objects, shop+"a")
				opts := appliedwork.ApplyOptions{Policies: appliedwork.Policies{Default: policy}}
				if _, err := s.apply(opts, foreign); err != nil {
					s.t.Fatal(err)
				}
				var uids []types.UID
				for _, owner := range (&unstructured.Unstructured{Object: s.objects[shop+"a"]}).GetOwnerReferences() {
					uids = append(uids, owner.UID)
				}
				if !slices.Equal(uids, owners) {
					s.t.Errorf("%s: the owners are %v, want %v", policy, uids, owners)
				}
			}
		},
		"each AppliedWork has its own field manager": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodPatch, shop+"a", func(request *http.Request, _ []byte) {
				if manager := request.URL.Query().Get("fieldManager"); !strings.HasSuffix(manager, string(s.work.UID)) {
					s.t.Error(manager)
				}
			})
			s.mustApply(manifest("a", "2"))
		},
		"no object is applied while the AppliedWork is terminating": func(s *scene) {
			s.write(inventory+"w", func(w *unstructured.Unstructured) {
				w.SetAnnotations(map[string]string{v1alpha1.AnnotationTerminating: "Teardown"})
			})
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, appliedwork.ErrTerminating) ||
				s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"no object is applied when the AppliedWork begins to terminate": func(s *scene) {
			s.at(http.MethodPut, inventory+"w", func(*http.Request, []byte) { // the intent is about to be recorded
				s.write(inventory+"w", func(w *unstructured.Unstructured) {
					w.SetAnnotations(map[string]string{v1alpha1.AnnotationTerminating: "Teardown"})
				})
			})
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, appliedwork.ErrTerminating) ||
				s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"an object that others create at the same time is not adopted": func(s *scene) {
			s.see = func(request *http.Request, _ []byte) {
				if request.Method != http.MethodGet && strings.HasPrefix(request.URL.Path, strings.TrimSuffix(shop, "/")) &&
					!s.exists(shop+"a") {
					s.put(shop+"a", manifest("a", "theirs"), "rival")
				}
			}
			var refused *appliedwork.AdoptionError
			_, err := s.apply(appliedwork.ApplyOptions{Force: true}, a)
			if value, _, _ := unstructured.NestedString(s.objects[shop+"a"], "data", "value"); !errors.As(err, &refused) ||
				value != "theirs" {
				s.t.Errorf("%v, value %q", err, value)
			}
		},
		"no object is adopted by default": func(s *scene) {
			s.put(shop+"a", manifest("a", "theirs"), "rival")
			var refused *appliedwork.AdoptionError
			_, err := s.apply(appliedwork.ApplyOptions{Force: true}, a)
			if value, _, _ := unstructured.NestedString(s.objects[shop+"a"], "data", "value"); !errors.As(err, &refused) ||
				value != "theirs" {
				s.t.Errorf("%v, value %q", err, value)
			}
		},
		"an adopted object has not changed since it was read": func(s *scene) {
			s.put(shop+"a", a, "rival")
			s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetOwnerReferences([]metav1.OwnerReference{co}) })
			})
			var refused *appliedwork.AdoptionError
			if _, err := s.apply(appliedwork.ApplyOptions{Adoption: appliedwork.AdoptionIfUnowned}, a); !errors.As(err,
				&refused) {
				s.t.Error(err)
			}
		},
		"a changed object has the UID that was read": func(s *scene) {
			s.mustApply(a, manifest("b", "1"))
			s.objects[shop+"a"]["metadata"].(map[string]any)["managedFields"] = nil // so one request changes it
			s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) { s.put(shop+"a", manifest("a", "theirs"), "rival") })
			var refused *appliedwork.AdoptionError
			if _, err := s.apply(appliedwork.ApplyOptions{}, manifest("a", "2"), manifest("b", "1")); !errors.As(err, &refused) {
				s.t.Error(err)
			}
		},
		"a manifest with a resourceVersion is for that version only": func(s *scene) {
			s.mustApply(a)
			metadata := s.objects[shop+"a"]["metadata"].(map[string]any)
			metadata["managedFields"] = nil // so one request changes it
			s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) {
				s.write(shop+"a", func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"changed": "meanwhile"}) })
			})
			key, err := appliedwork.Identify(a)
			if err != nil {
				s.t.Fatal(err)
			}
			of := map[appliedwork.Key]appliedwork.ObjectOptions{key: {ResourceVersion: fmt.Sprint(metadata["resourceVersion"])}}
			if _, err := s.apply(appliedwork.ApplyOptions{ByKey: of}, manifest("a", "2")); !errors.Is(err,
				appliedwork.ErrChanged) {
				s.t.Error(err)
			}
		},
		"an ignored field that others change meanwhile stays": ignoredRace,
		"an unknown outcome keeps the entry": func(s *scene) {
			lost := errors.New("lost")
			s.see = func(request *http.Request, _ []byte) {
				s.lose = nil
				if request.Method == http.MethodPost && strings.HasPrefix(request.URL.Path, spaces) {
					s.lose = func() error { return lost }
				}
			}
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, lost) || !s.exists(shop+"a") ||
				!s.recorded("a") {
				s.t.Errorf("%v, recorded %v", err, s.recorded("a"))
			}
		},
		"a refused repeat of a create is no refusal": func(s *scene) {
			s.refuse = func(request *http.Request, body []byte) *metav1.Status {
				if request.Method != http.MethodPost || !strings.HasPrefix(request.URL.Path, spaces) {
					return nil
				}
				s.refuse = nil
				_, _ = s.serve(request, body) // the first attempt
				return &metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				}
			}
			changes, err := s.apply(appliedwork.ApplyOptions{}, a)
			if err != nil || changes.String() != "1 unchanged" || !s.recorded("a") {
				s.t.Errorf("%v, %v, recorded %v", changes, err, s.recorded("a"))
			}
		},
		"a failed update keeps the entry": func(s *scene) {
			s.mustApply(a)
			failed := errors.New("unavailable")
			s.fail = func(method, path string) error {
				if method == http.MethodPatch && path == shop+"a" {
					return failed
				}
				return nil
			}
			if _, err := s.apply(appliedwork.ApplyOptions{}, manifest("a", "2")); !errors.Is(err, failed) || !s.recorded("a") {
				s.t.Errorf("%v, recorded %v", err, s.recorded("a"))
			}
		},
		"a new object has a new intent": func(s *scene) {
			s.mustApply(a)
			old, err := s.tracker.Entries(s.t.Context(), s.work)
			if err != nil {
				s.t.Fatal(err)
			}
			delete(s.objects, shop+"a")
			dead := errors.New("dead")
			made := false
			s.fail = func(method, path string) error {
				if made {
					return dead
				}
				made = method == http.MethodPost && strings.HasPrefix(path, spaces)
				return nil
			}
			if _, err := s.apply(appliedwork.ApplyOptions{}, a); !errors.Is(err, dead) || !s.exists(shop+"a") {
				s.t.Fatal(err)
			}
			s.fail = nil
			// called by a process that saw the end of the old object
			if err := s.tracker.Forget(s.t.Context(), s.work, old...); err != nil {
				s.t.Fatal(err)
			}
			if !s.recorded("a") {
				s.t.Error("the entry of the new object is gone")
			}
		},
		"a protected namespace gets no owner": func(s *scene) {
			ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
				"metadata": map[string]any{"name": "default"}}}
			s.put(spaces+"default", ns, "default")
			// The policy would delete the adopted namespace, so only its protection keeps it.
			opts := appliedwork.ApplyOptions{
				Adoption: appliedwork.AdoptionAlways, Policies: appliedwork.Policies{Adopted: appliedwork.PolicyDelete},
			}
			if _, err := s.apply(opts, ns); err != nil {
				s.t.Fatal(err)
			}
			if owners := (&unstructured.Unstructured{Object: s.objects[spaces+"default"]}).GetOwnerReferences(); len(
				owners) > 0 {
				s.t.Error(owners)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}

// ignoredRace: another manager changes an ignored field just before the write.
func ignoredRace(s *scene) {
	a := manifest("a", "1")
	a.SetLabels(map[string]string{"version": "1"})
	key, err := appliedwork.Identify(a)
	if err != nil {
		s.t.Fatal(err)
	}
	options := appliedwork.ApplyOptions{
		ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: {Force: true, IgnoreFields: []string{"/data/value"}}},
	}
	if _, err := s.apply(options, a); err != nil {
		s.t.Fatal(err)
	}
	s.at(http.MethodPatch, shop+"a", func(*http.Request, []byte) {
		s.write(shop+"a", func(obj *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(obj.Object, "theirs", "data", "value")
		})
	})
	s.write(shop+"a", func(obj *unstructured.Unstructured) { // as after an apply, so one request changes it
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "appliedwork-" + string(s.work.UID), Operation: metav1.ManagedFieldsOperationApply,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:value":{}}}`),
		}})
	})
	a.SetLabels(map[string]string{"version": "2"})
	changes, err := s.apply(options, a)
	if err != nil || changes.String() != "1 configured" {
		s.t.Errorf("%v, %v", changes, err)
	}
	stored := &unstructured.Unstructured{Object: s.objects[shop+"a"]}
	if value, _, _ := unstructured.NestedString(stored.Object, "data", "value"); value != "theirs" ||
		stored.GetLabels()["version"] != "2" {
		s.t.Errorf("%v", stored.Object)
	}
}
