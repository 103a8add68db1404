// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

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
	api.kinds["example.com/v1"] = &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "parts", Kind: "Part", Namespaced: true, Verbs: verbs}}}
	crd = object(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"parts.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"parts","kind":"Part"},"versions":[{"name":"v1","served":true,"storage":true}]}}`)
	return crd, object(`{"apiVersion":"example.com/v1","kind":"Part","metadata":{"namespace":"shop","name":"p"}}`)
}

// TestCRDOfDesiredObjects: deleting a CRD deletes its objects, so the CRD stays while one of these
// objects must stay.
func TestCRDOfDesiredObjects(t *testing.T) {
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
			if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{crd, part}, appliedwork.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			if test.owner != "" {
				live := &unstructured.Unstructured{Object: api.objects[path]}
				live.SetOwnerReferences(append(live.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "apps/v1", Kind: test.owner, Name: "x", UID: "x"}))
			}
			var desired []*unstructured.Unstructured
			if test.desired {
				desired = append(desired, part)
			}
			opts := appliedwork.PruneOptions{AllowEmpty: true, Policies: test.policies}
			pruner := appliedwork.NewPruner(tracker)
			for _, prune := range []func(context.Context, *v1alpha1.AppliedWork, []*unstructured.Unstructured, appliedwork.PruneOptions) (*appliedwork.ChangeSet, error){
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

// TestManifestWithoutItsNamespace: Apply refuses a manifest without its namespace. Prune must not
// treat the object of that manifest as undesired.
func TestManifestWithoutItsNamespace(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	a, b := manifest("a", "1"), manifest("b", "1")
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{a, b}, appliedwork.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	lost := a.DeepCopy()
	lost.SetNamespace("")
	changes, err := appliedwork.NewPruner(tracker).Prune(t.Context(), work, []*unstructured.Unstructured{lost, b}, appliedwork.PruneOptions{})
	var blocked *appliedwork.PruneBlockedError
	if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonManifestUnknown || api.count("configmaps") != 2 {
		t.Errorf("%v, %v, %d objects", changes, err, api.count("configmaps"))
	}
}

// TestNamespaceOfWhatIsLeft: the namespace of an object that the policy keeps also stays, in each
// pass.
func TestNamespaceOfWhatIsLeft(t *testing.T) {
	a := appliedwork.Key{Kind: "ConfigMap", Namespace: "shop", Name: "a"}
	rules := []appliedwork.OrphanRule{{Resource: "configmaps", Namespace: "shop", Name: "a"}, {Resource: "unknowns", Namespace: "shop", Name: "a"}}
	for name, policies := range map[string]appliedwork.Policies{
		"by a rule": {Default: appliedwork.PolicySelectivelyOrphan, Orphans: rules},
		"by key":    {ByKey: map[appliedwork.Key]appliedwork.Policy{a: appliedwork.PolicyOrphan}},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI()
			tracker, work := newTracker(t, api, nil)
			objects := []*unstructured.Unstructured{object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`), manifest("a", "1"), manifest("b", "1")}
			if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			collector := appliedwork.NewCollector(tracker)
			for range 2 {
				changes, err := collector.Teardown(t.Context(), work, appliedwork.TeardownOptions{Policies: policies})
				var blocked *appliedwork.PruneBlockedError
				if !errors.As(err, &blocked) || blocked.Reason != appliedwork.BlockReasonNamespaceInUse || api.count("/configmaps/a") != 1 || api.objects["/api/v1/namespaces/shop"] == nil {
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
