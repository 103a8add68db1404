// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func work(name string, uid string) *v1alpha1.AppliedWork {
	w := &v1alpha1.AppliedWork{Spec: v1alpha1.AppliedWorkSpec{WorkName: name, WorkNamespace: "cluster1"}}
	w.Name, w.UID = name, "us"
	if uid != "" {
		w.UID = "them"
	}
	return w
}

func TestOwnerReferences(t *testing.T) {
	us, them := work("w", ""), work("w", "them") // an older incarnation of the same name
	obj := live("1", false)
	if !appliedwork.SetOwnerReference(obj, us) || appliedwork.SetOwnerReference(obj, us) {
		t.Error("the first call sets it, the second finds it")
	}
	if !appliedwork.SetOwnerReference(obj, them) || !appliedwork.IsOwnedBy(obj, "us") || !appliedwork.IsOwnedBy(obj, "them") {
		t.Error("two AppliedWorks own it side by side")
	}
	r := obj.GetOwnerReferences()[0]
	if r.BlockOwnerDeletion == nil || !*r.BlockOwnerDeletion || r.Controller != nil {
		t.Errorf("%+v, want blockOwnerDeletion and no controller", r)
	}
	r.BlockOwnerDeletion = nil
	obj.SetOwnerReferences([]metav1.OwnerReference{r})
	if !appliedwork.SetOwnerReference(obj, us) || len(obj.GetOwnerReferences()) != 1 {
		t.Error("a reference that was tampered with is mended in its place")
	}
	if appliedwork.RemoveOwnerReference(obj, "nobody") || !appliedwork.RemoveOwnerReference(obj, "us") || obj.GetOwnerReferences() != nil {
		t.Error("only the reference with the UID goes")
	}
	if appliedwork.IsOwnedBy(obj, "") {
		t.Error("nobody is no owner")
	}
}

func TestIdentify(t *testing.T) {
	object := func(s string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(s), &obj.Object); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	tests := []struct {
		name string
		obj  *unstructured.Unstructured
		want appliedwork.Key
		err  error
	}{
		{"namespaced", object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`),
			appliedwork.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, nil},
		{"cluster scoped", object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`), appliedwork.Key{Kind: "Namespace", Name: "shop"}, nil},
		{"generateName", object(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"x-"}}`), appliedwork.Key{}, appliedwork.ErrGenerateName},
		{"no name", object(`{"apiVersion":"v1","kind":"Pod"}`), appliedwork.Key{}, appliedwork.ErrInvalidObject},
		{"no kind", object(`{"apiVersion":"v1","metadata":{"name":"x"}}`), appliedwork.Key{}, appliedwork.ErrInvalidObject},
		{"no version", object(`{"kind":"Pod","metadata":{"name":"x"}}`), appliedwork.Key{}, appliedwork.ErrInvalidObject},
		{"not decoded", nil, appliedwork.Key{}, appliedwork.ErrInvalidObject},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := appliedwork.Identify(test.obj)
			if !errors.Is(err, test.err) || err == nil && got != test.want {
				t.Errorf("%v, %v, want %v, %v", got, err, test.want, test.err)
			}
		})
	}
}

// TestNameFor: a name is valid, stable, and unique for a work, whatever characters its parts have.
func TestNameFor(t *testing.T) {
	if got, want := appliedwork.NameFor("hub", "cluster1", "Work_01"), "work-01-"; got[:len(want)] != want || got != appliedwork.NameFor("hub", "cluster1", "Work_01") {
		t.Error(got)
	}
	seen := map[string][3]string{}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "A", "a-", "-a", "a.b", "a/b", "ab"}))
		parts := [3]string{part.Draw(t, "hub"), part.Draw(t, "namespace"), part.Draw(t, "name")}
		name := appliedwork.NameFor(parts[0], parts[1], parts[2])
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || len(name) > 133 {
			t.Fatalf("%q: %v", name, errs)
		}
		if other, ok := seen[name]; ok && other != parts {
			t.Fatalf("%q and %q are both %s", parts, other, name)
		}
		seen[name] = parts
	})
}

func TestPolicies(t *testing.T) {
	id := identifier("apps", "v1", "Deployment", "deployments", "ns", "web")
	rule := appliedwork.OrphanRule{Group: "apps", Resource: "deployments", Namespace: "ns", Name: "web"}
	tests := []struct {
		name     string
		policies appliedwork.Policies
		want     appliedwork.Policy
	}{
		{"zero", appliedwork.Policies{}, appliedwork.PolicyDelete},
		{"orphan", appliedwork.Policies{Default: appliedwork.PolicyOrphan}, appliedwork.PolicyOrphan},
		{"selected", appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan, Orphans: []appliedwork.OrphanRule{rule}}, appliedwork.PolicyOrphan},
		{"not selected", appliedwork.Policies{Default: appliedwork.PolicySelectivelyOrphan}, appliedwork.PolicyDelete},
		{"by key", appliedwork.Policies{Default: appliedwork.PolicyOrphan, ByKey: map[appliedwork.Key]appliedwork.Policy{appliedwork.KeyOf(id): appliedwork.PolicyDelete}}, appliedwork.PolicyDelete},
	}
	for _, test := range tests {
		if got := test.policies.For(id); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestIsTypeNotServed(t *testing.T) {
	resource := schema.GroupResource{Group: "example.com", Resource: "tenants"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"object", apierrors.NewNotFound(resource, "acme"), false},
		{"path", apierrors.NewGenericServerResponse(404, "GET", resource, "acme", "404 page not found", 0, true), true},
		{"bare 404", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}, true},
		{"mapper, kind", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Tenant"}}, true},
		{"mapper, resource", fmt.Errorf("x: %w", &meta.NoResourceMatchError{}), true},
		{"ours", fmt.Errorf("x: %w", &appliedwork.TypeNotServedError{}), true},
		{"forbidden", apierrors.NewForbidden(resource, "acme", nil), false},
		{"unavailable", apierrors.NewServiceUnavailable("aggregated"), false},
		{"reset", errors.New("connection reset by peer"), false},
	}
	for _, test := range tests {
		if got := appliedwork.IsTypeNotServed(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestUpstreamObjects: objects in the form of the work-api CRD keep each field, and no other field
// appears.
func TestUpstreamObjects(t *testing.T) {
	content, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Objects []json.RawMessage }
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Objects) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, raw := range vectors.Objects {
		var typed v1alpha1.AppliedWork
		if err := json.Unmarshal(raw, &typed); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(&typed)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		_ = json.Unmarshal(raw, &want)
		_ = json.Unmarshal(again, &got)
		if status, ok := got["status"].(map[string]any); ok && len(status) == 0 {
			delete(got, "status") // Go writes an empty struct; the API server drops it
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", typed.Name, d)
		}
		plan := appliedwork.Diff(typed.Status.AppliedResources, nil)
		if len(plan.Stale) != len(typed.Status.AppliedResources) {
			t.Errorf("%s: %v", typed.Name, plan)
		}
	}
}
