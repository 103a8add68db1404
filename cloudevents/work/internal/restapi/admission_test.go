// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

// policies keeps the objects of the last request that admission validated.
type policies struct{ object, old any }

func (*policies) Handles(admission.Operation) bool { return true }

func (p *policies) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	p.object, p.old = content(a.GetObject()), content(a.GetOldObject())
	return nil
}

// content returns the object that policies and webhooks receive, without managedFields.
func content(obj runtime.Object) any {
	if obj == nil {
		return nil
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
	start(t, source.Start)
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
	applied := request("PATCH", works+"/applied?fieldManager=me", strings.Replace(body, `"name":"a"`, `"name":"applied"`, 1),
		"Content-Type", "application/apply-patch+yaml")
	check("apply", seen.object, applied, "resourceVersion")
	request("DELETE", works+"/applied", "")
	check("object before the deletion", seen.old, applied)
}
