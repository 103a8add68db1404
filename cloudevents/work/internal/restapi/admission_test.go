// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

// policies keeps the objects of the last request that admission validated.
type policies struct{ object, old any }

func (*policies) Handles(admission.Operation) bool { return true }

func (p *policies) Validate(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p.object, p.old = content(a.GetObject(), o), content(a.GetOldObject(), o)
	return nil
}

// content returns the object that policies and webhooks receive, without managedFields.
func content(obj runtime.Object, o admission.ObjectInterfaces) any {
	if obj == nil {
		return nil
	}
	obj, err := admission.ConvertToGVK(obj, schema.GroupVersion(workv1.GroupVersion).WithKind("ManifestWork"), o)
	if err != nil {
		return err
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(m, "metadata", "managedFields")
	return m
}

// TestAdmissionSeesCompleteObject: policies and webhooks check the object that is stored, with its
// generated name and the fields that the server sets, and without a status from the client.
func TestAdmissionSeesCompleteObject(t *testing.T) {
	source, seen := sourceOn(t, memory.New()), &policies{}
	background.Run(t, source.Start)
	handler, err := restapi.New(source.Clientset(), restapi.Options{Admission: seen})
	if err != nil {
		t.Fatal(err)
	}
	request := func(method, path, body string, headers ...string) map[string]any {
		t.Helper()
		w := send(t, handler, method, path, body, headers...)
		if w.Code > http.StatusCreated {
			t.Fatalf("%s: %d %s", method, w.Code, w.Body)
		}
		got := map[string]any{}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	check := func(what string, got, want any, unset ...string) {
		t.Helper()
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var object any
		if err := json.Unmarshal(data, &object); err != nil { // both have the numbers of encoding/json
			t.Fatal(err)
		}
		expected := runtime.DeepCopyJSONValue(want).(map[string]any) //nolint:forcetypeassert // as below
		unstructured.RemoveNestedField(expected, "metadata", "managedFields")
		for _, name := range unset {
			unstructured.RemoveNestedField(expected, "metadata", name)
		}
		if diff := cmp.Diff(any(expected), object); diff != "" {
			t.Errorf("%s (-stored +seen):\n%s", what, diff)
		}
	}
	generates := strings.Replace(body, `"name":"a"`, `"generateName":"a-"`, 1)
	generates = strings.TrimSuffix(generates, "}") + `,"status":{"conditions":[]}}`
	created := request("POST", works, generates)
	check("create", seen.object, created, "resourceVersion")
	name, _, _ := unstructured.NestedString(created, "metadata", "name")
	patched := request("PATCH", works+"/"+name, `{"spec":{"workload":{"manifests":[]}}}`,
		"Content-Type", "application/merge-patch+json")
	version, _, _ := unstructured.NestedString(created, "metadata", "resourceVersion")
	if err := unstructured.SetNestedField(patched, version, "metadata", "resourceVersion"); err != nil {
		t.Fatal(err)
	}
	check("patch", seen.object, patched)
	check("object before the patch", seen.old, created)
	applied := request("PATCH", works+"/applied?fieldManager=me",
		strings.Replace(body, `"name":"a"`, `"name":"applied"`, 1), "Content-Type", "application/apply-patch+yaml")
	check("apply", seen.object, applied, "resourceVersion")
	request("DELETE", works+"/applied", "")
	check("object before the deletion", seen.old, applied)
}

// updaters permits everything except creations.
type updaters struct{}

func (updaters) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "create" {
		return authorizer.DecisionDeny, "may only patch", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// TestApplyNeedsRightToCreate: a server-side apply creates a work only if its user may create
// works, also on a server without admission.
func TestApplyNeedsRightToCreate(t *testing.T) {
	source := sourceOn(t, memory.New())
	background.Run(t, source.Start)
	handler, err := restapi.New(source.Clientset(), restapi.Options{Authorizer: updaters{}})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(name string) *httptest.ResponseRecorder {
		t.Helper()
		return send(t, handler, "PATCH", works+"/"+name+"?fieldManager=me", strings.Replace(body, `"a"`, `"`+name+`"`, 1),
			"Content-Type", "application/apply-patch+yaml")
	}
	wantStatus(t, apply("new"), http.StatusForbidden, metav1.StatusReasonForbidden)
	if w := send(t, handlerOf(t, source.Clientset()), "POST", works, body); w.Code != http.StatusCreated {
		t.Fatalf("create: %d %s", w.Code, w.Body)
	}
	if w := apply("a"); w.Code != http.StatusOK {
		t.Errorf("apply to an existing work: %d %s", w.Code, w.Body)
	}
}

// TestDeleteIsOfTheCheckedVersion: if a work changes while a policy or a webhook checks its
// deletion, they check the new version too.
func TestDeleteIsOfTheCheckedVersion(t *testing.T) {
	source := sourceOn(t, memory.New())
	background.Run(t, source.Start)
	writer := handlerOf(t, source.Clientset())
	protected := validation(func(a admission.Attributes) error {
		old := a.GetOldObject().(*workv1.ManifestWork) //nolint:forcetypeassert // of the storage
		if old.Labels["protected"] != "" {
			return admission.NewForbidden(a, errors.New("the work is protected"))
		}
		send(t, writer, "PATCH", works+"/a", `{"metadata":{"labels":{"protected":"yes"}}}`,
			"Content-Type", "application/merge-patch+json")
		return nil
	})
	handler, err := restapi.New(source.Clientset(), restapi.Options{Admission: protected})
	if err != nil {
		t.Fatal(err)
	}
	if w := send(t, writer, "POST", works, body); w.Code != http.StatusCreated {
		t.Fatalf("create: %d %s", w.Code, w.Body)
	}
	wantStatus(t, send(t, handler, "DELETE", works+"/a", ""), http.StatusForbidden, metav1.StatusReasonForbidden)
	none, err := restapi.New(source.Clientset(), restapi.Options{
		Admission: validation(func(admission.Attributes) error { return nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, precondition := range []string{`{"resourceVersion":"1"}`, `{"uid":"1"}`} {
		w := send(t, none, "DELETE", works+"/a", `{"preconditions":`+precondition+`}`)
		wantStatus(t, w, http.StatusConflict, metav1.StatusReasonConflict)
	}
	if w := send(t, none, "DELETE", works+"/a", ""); w.Code != http.StatusOK {
		t.Errorf("delete: %d %s", w.Code, w.Body)
	}
}

// validation is an admission plugin that checks requests.
type validation func(admission.Attributes) error

func (validation) Handles(o admission.Operation) bool { return o == admission.Delete }

func (v validation) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return v(a)
}
