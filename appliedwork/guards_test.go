// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func object(text string, args ...any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, text, args...), &obj.Object); err != nil {
		panic(err)
	}
	return obj
}

// withParts makes the fake server serve CRDs, and the kind Part of a CRD.
func withParts(api *fakeAPI) (crd, part *unstructured.Unstructured) {
	verbs := metav1.Verbs{"get", "list", "create", "delete"}
	api.kinds["apiextensions.k8s.io/v1"] = &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition", Verbs: verbs}}}
	api.kinds["example.com/v1"] = &metav1.APIResourceList{
		APIResources: []metav1.APIResource{{Name: "parts", Kind: "Part", Namespaced: true, Verbs: verbs}},
	}
	crd = object(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"parts.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"parts","kind":"Part"},"versions":[{"name":"v1","served":true,"storage":true}]}}`)
	return crd, object(`{"apiVersion":"example.com/v1","kind":"Part","metadata":{"namespace":"shop","name":"p"}}`)
}

// TestCRDOfDesiredObjectsStays checks that a CRD stays while one of its objects must
// stay, because deleting the CRD deletes its objects.
func TestCRDOfDesiredObjectsStays(t *testing.T) {
	path := "/apis/example.com/v1/namespaces/shop/parts/p"
	tests := []struct {
		name     string
		desired  bool
		policies appliedwork.Policies
		owner    string // another owner of the object
	}{
		{name: "desired", desired: true},
		{name: "another owner has it too", owner: "Deployment"},
		{name: "the policy leaves it", policies: appliedwork.Policies{ByKey: map[appliedwork.Key]appliedwork.Policy{
			{Group: "example.com", Kind: "Part", Namespace: "shop", Name: "p"}: appliedwork.PolicyOrphan}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := newFakeAPI()
			crd, part := withParts(api)
			tracker, work := newTracker(t, api, nil)
			if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{crd, part},
				appliedwork.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			if test.owner != "" {
				live := &unstructured.Unstructured{Object: api.objects[path]}
				live.SetOwnerReferences(append(live.GetOwnerReferences(),
					metav1.OwnerReference{APIVersion: "apps/v1", Kind: test.owner, Name: "x", UID: "x"}))
			}
			var desired []*unstructured.Unstructured
			if test.desired {
				desired = append(desired, part)
			}
			opts := appliedwork.PruneOptions{AllowEmpty: true, Policies: test.policies}
			pruner := appliedwork.NewPruner(tracker)
			for _, prune := range []func(context.Context, *v1alpha1.AppliedWork, []*unstructured.Unstructured,
				appliedwork.PruneOptions) (*appliedwork.ChangeSet, error){
				pruner.Plan, pruner.Prune,
			} {
				changes, err := prune(t.Context(), work, desired, opts)
				var blocked *appliedwork.PruneBlockedError
				if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonCRDInUse {
					t.Errorf("%v, %v", changes.Entries, err)
				}
			}
			if api.objects[path] == nil || api.count("customresourcedefinitions") != 1 {
				t.Error("the object or its CRD is gone")
			}
		})
	}
}

// TestManifestWithoutNamespaceBlocksPrune checks that Prune does not treat the
// object of a manifest as undesired if Apply refuses the manifest because it lacks its namespace.
func TestManifestWithoutNamespaceBlocksPrune(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	a, b := manifest("a", "1"), manifest("b", "1")
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{a, b},
		appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	lost := a.DeepCopy()
	lost.SetNamespace("")
	changes, err := appliedwork.NewPruner(tracker).Prune(t.Context(), work, []*unstructured.Unstructured{lost, b},
		appliedwork.PruneOptions{})
	var blocked *appliedwork.PruneBlockedError
	if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonManifestUnknown ||
		api.count("configmaps") != 2 {
		t.Errorf("%v, %v, %d objects", changes, err, api.count("configmaps"))
	}
}

// TestNamespaceOfKeptObjectStays checks that the namespace of an object that the
// policy keeps also stays, in each pass.
func TestNamespaceOfKeptObjectStays(t *testing.T) {
	a := appliedwork.Key{Kind: "ConfigMap", Namespace: "shop", Name: "a"}
	rules := []appliedwork.OrphanRule{{Resource: "configmaps", Namespace: "shop", Name: "a"},
		{Resource: "unknowns", Namespace: "shop", Name: "a"}}
	for name, policies := range map[string]appliedwork.Policies{
		"by a rule": {Default: appliedwork.PolicySelectivelyOrphan, Orphans: rules},
		"by key":    {ByKey: map[appliedwork.Key]appliedwork.Policy{a: appliedwork.PolicyOrphan}},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI()
			tracker, work := newTracker(t, api, nil)
			objects := []*unstructured.Unstructured{object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`),
				manifest("a", "1"), manifest("b", "1")}
			if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects,
				appliedwork.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			collector := appliedwork.NewCollector(tracker)
			for range 2 {
				changes, err := collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: policies})
				var blocked *appliedwork.PruneBlockedError
				if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonNamespaceInUse ||
					api.count("/configmaps/a") != 1 || api.objects["/api/v1/namespaces/shop"] == nil {
					t.Fatalf("%v, %v", changes.Entries, err)
				}
			}
			delete(api.objects, "/api/v1/namespaces/shop/configmaps/a")
			for range 2 { // a Namespace is checked again
				if _, err := collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: policies}); err != nil {
					t.Fatal(err)
				}
			}
			if len(api.objects) > 0 {
				t.Errorf("%d objects are left", len(api.objects))
			}
		})
	}
}

// TestGuardsBlockDeletion tests the objects that Prune refuses to delete.
func TestGuardsBlockDeletion(t *testing.T) {
	a, ns := manifest("a", "1"), of("v1", "Namespace", "", "shop")
	blocked := func(s *scene, path string, reason appliedwork.BlockReason, desired ...*unstructured.Unstructured) {
		s.t.Helper()
		var refused *appliedwork.PruneBlockedError
		_, err := s.prune(desired...)
		if !errors.As(err, &refused) || refused.Reason != reason || !s.exists(path) {
			s.t.Errorf("%v, want %s; there: %v", err, reason, s.exists(path))
		}
	}
	for name, test := range map[string]func(*scene){
		"a namespace with desired objects": func(s *scene) {
			s.mustApply(a, ns)
			blocked(s, spaces+"shop", appliedwork.BlockReasonNamespaceInUse, a)
		},
		"a namespace with objects of another AppliedWork": func(s *scene) {
			s.mustApply(ns)
			other, err := s.tracker.Ensure(s.t.Context(), "other", v1alpha1.AppliedWorkSpec{WorkName: "other"})
			if err != nil {
				s.t.Fatal(err)
			}
			if err := s.tracker.RecordIntent(s.t.Context(), other,
				identifier("", "v1", "ConfigMap", "configmaps", "shop", "z")); err != nil {
				s.t.Fatal(err)
			}
			blocked(s, spaces+"shop", appliedwork.BlockReasonNamespaceInUse)
		},
		"a namespace with an object of a user": func(s *scene) {
			s.mustApply(a, ns)
			s.put(shop+"kube-root-ca.crt", manifest("kube-root-ca.crt", "1"), "root")
			s.put(shop+"users", manifest("users", "1"), "users")
			blocked(s, spaces+"shop", appliedwork.BlockReasonNamespaceNotEmpty)
			delete(s.objects, shop+"users")
			if _, err := s.prune(); err != nil || s.exists(spaces+"shop") {
				s.t.Error(err)
			}
		},
		"a namespace with a kind that cannot be listed": func(s *scene) {
			s.mustApply(ns)
			s.kinds["v1"].APIResources = append(s.kinds["v1"].APIResources, metav1.APIResource{
				Name: "mysteries", Kind: "Mystery", Namespaced: true, Verbs: metav1.Verbs{"delete"}})
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			process := appliedwork.NewPruner(newProcess(s))
			var refused *appliedwork.PruneBlockedError
			_, err := process.Prune(s.t.Context(), s.work, nil, appliedwork.PruneOptions{AllowEmpty: true})
			if !errors.As(err, &refused) || refused.Reason != appliedwork.BlockReasonNamespaceUnreadable ||
				!s.exists(spaces+"shop") {
				s.t.Error(err)
			}
		},
		"a namespace with a kind that is no longer served": func(s *scene) {
			s.mustApply(ns)
			s.kinds["v1"].APIResources = append(s.kinds["v1"].APIResources, metav1.APIResource{
				Name: "mysteries", Kind: "Mystery", Namespaced: true, Verbs: metav1.Verbs{"delete", "list"}})
			s.away = func(path string) bool { return strings.HasSuffix(path, "/mysteries") }
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			process := appliedwork.NewPruner(newProcess(s))
			changes, err := process.Prune(s.t.Context(), s.work, nil, appliedwork.PruneOptions{AllowEmpty: true})
			if err != nil || changes.Count(appliedwork.ActionPending) != 1 || !s.exists(spaces+"shop") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a namespace with pending objects": func(s *scene) {
			held := a.DeepCopy()
			held.SetFinalizers([]string{"example.com/hold"})
			s.mustApply(held, ns)
			if changes, err := s.prune(); err != nil || changes.Count(appliedwork.ActionPending) != 2 ||
				!s.exists(spaces+"shop") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"a namespace of the cluster": func(s *scene) {
			system := of("v1", "Namespace", "", "kube-system")
			appliedwork.SetOwnerReference(system, s.work)
			s.put(spaces+"kube-system", system, "system")
			id := v1alpha1.ResourceIdentifier{Version: "v1", Kind: "Namespace", Resource: "namespaces", Name: "kube-system"}
			if err := s.tracker.RecordApplied(s.t.Context(), s.work, entry(id, "system")); err != nil {
				s.t.Fatal(err)
			}
			blocked(s, spaces+"kube-system", appliedwork.BlockReasonProtected)
		},
		"a CRD with objects of others": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(crdOfThings())
			s.put(things+"theirs", of("example.com/v1", "Thing", "shop", "theirs"), "theirs")
			blocked(s, crds+"things.example.com", appliedwork.BlockReasonCRDInUse)
		},
		"a CRD of a kind that is no longer served": func(s *scene) {
			s.serveThings("v1")
			s.mustApply(crdOfThings())
			s.away = func(path string) bool { return strings.HasSuffix(path, "/things") }
			if changes, err := s.prune(); err != nil || changes.Count(appliedwork.ActionPending) != 1 ||
				!s.exists(crds+"things.example.com") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
		"an empty desired set": func(s *scene) {
			s.mustApply(a)
			if _, err := s.pruner.Prune(s.t.Context(), s.work, nil, appliedwork.PruneOptions{}); !errors.Is(err,
				appliedwork.ErrEmptyDesired) || !s.exists(shop+"a") {
				s.t.Error(err)
			}
		},
		"an AppliedWork with entries that were recorded meanwhile": func(s *scene) {
			s.mustApply(a)
			s.at(http.MethodDelete, inventory+"w", func(*http.Request, []byte) {
				late := a.DeepCopy()
				late.SetName("late")
				appliedwork.SetOwnerReference(late, s.work)
				s.put(shop+"late", late, "late")
				s.write(inventory+"w", func(w *unstructured.Unstructured) {
					e := map[string]any{"ordinal": int64(0), "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
						"namespace": "shop", "name": "late", "uid": "late"}
					_ = unstructured.SetNestedSlice(w.Object, []any{e}, "status", "appliedResources")
				})
			})
			if changes, err := s.collector.Teardown(s.t.Context(), s.work, appliedwork.TeardownOptions{}); err != nil ||
				!changes.Done() || s.exists(shop+"late") {
				s.t.Errorf("%v, %v", changes, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newScene(t)) })
	}
}
