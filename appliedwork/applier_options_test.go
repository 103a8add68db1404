// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

// TestInvalidIgnoreFieldsAreRefused checks that a bad pointer is an error before any
// write.
func TestInvalidIgnoreFieldsAreRefused(t *testing.T) {
	for pointer, want := range map[string]string{
		"": "CreateOnly", "data": "begin with /", "/a~2": "~0", "/a~": "~0", "/nothing/a~2": "~0",
		"/kind":       "apiVersion or kind",
		"/apiVersion": "apiVersion or kind", "/metadata": "the name or the namespace",
		"/metadata/name":      "the name or the namespace",
		"/metadata/namespace": "the name or the namespace", "/data/list/-": "index of a list item",
		"/data/list/01": "index of a list item",
	} {
		s := newScene(t)
		obj := manifest("a", "1")
		obj.Object["data"].(map[string]any)["list"] = []any{"x"}
		key, err := appliedwork.Identify(obj)
		if err != nil {
			t.Fatal(err)
		}
		before := len(s.writes)
		for _, options := range []appliedwork.ObjectOptions{{IgnoreFields: []string{pointer}},
			{IgnoreChangedFields: []string{pointer}}} {
			_, err = s.apply(appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: options}}, obj)
			if !errors.Is(err, appliedwork.ErrInvalidInput) || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), key.String()) {
				t.Errorf("%q: %v, want %q", pointer, err, want)
			}
		}
		if written := slices.DeleteFunc(s.writes[before:],
			func(w string) bool { return strings.Contains(w, "/appliedworks/") }); len(written) > 0 || s.exists(shop+"a") {
			t.Errorf("%q: %v", pointer, written)
		}
	}
}

// TestIgnoredFieldsCauseNoWrite checks that a second apply causes no write, and a change
// of an ignored field by others causes none either. New options do.
func TestIgnoredFieldsCauseNoWrite(t *testing.T) {
	s := newScene(t)
	s.kinds["v1"].APIResources = append(s.kinds["v1"].APIResources,
		metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	a := object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"a"},"data":{"kept":"MQ=="},"stringData":{"value":"1","more":"1"}}`)
	path := spaces + "shop/secrets/a"
	key, err := appliedwork.Identify(a)
	if err != nil {
		t.Fatal(err)
	}
	options := func(o appliedwork.ObjectOptions) appliedwork.ApplyOptions {
		return appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: o}}
	}
	apply := func(o appliedwork.ObjectOptions, want string) {
		t.Helper()
		changes, err := s.apply(options(o), a)
		if err != nil || changes.String() != want {
			t.Errorf("%v, %v, want %s", changes, err, want)
		}
	}
	// change makes another manager own data.value.
	change := func() {
		s.write(path, func(obj *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(obj.Object, "dGhlaXJz", "data", "value")
			entries := obj.GetManagedFields()
			text := strings.NewReplacer(`"f:value":{},`, ``, `,"f:value":{}`, ``).Replace(entries[0].FieldsV1.GetRawString())
			entries[0].FieldsV1 = metav1.NewFieldsV1(text)
			obj.SetManagedFields(append(entries, metav1.ManagedFieldsEntry{
				Manager: "somebody", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:value":{}}}`),
			}))
		})
	}
	ignore := appliedwork.ObjectOptions{IgnoreFields: []string{"/stringData/value"}}
	apply(ignore, "1 created")
	apply(ignore, "1 unchanged")
	change()
	apply(ignore, "1 unchanged")
	a.Object["stringData"].(map[string]any)["value"] = "2" // ignored
	apply(ignore, "1 unchanged")
	apply(appliedwork.ObjectOptions{IgnoreFields: []string{"/stringData/value", "/stringData/value"}}, "1 unchanged")
	whole := appliedwork.ObjectOptions{IgnoreChangedFields: []string{"/stringData"}}
	apply(whole, "1 configured")
	change()
	apply(whole, "1 unchanged")
	apply(appliedwork.ObjectOptions{Strategy: appliedwork.StrategyUpdate, IgnoreFields: []string{"/data/value"}},
		"1 configured")
	if value, _, _ := unstructured.NestedString(s.objects[path], "data", "value"); value != "dGhlaXJz" {
		t.Errorf("the value is %s", value)
	}
	apply(appliedwork.ObjectOptions{}, "1 configured")
	if value, _, _ := unstructured.NestedString(s.objects[path], "data", "value"); value != "Mg==" {
		t.Errorf("the value is %s", value)
	}
}

// TestObjectOptionsApplyToOneObject checks that the manager and the force of one object apply
// only to that object, within one call.
func TestObjectOptionsApplyToOneObject(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	objects := []*unstructured.Unstructured{manifest("a", "1"), manifest("b", "1")}
	key, err := appliedwork.Identify(objects[1])
	if err != nil {
		t.Fatal(err)
	}
	var managers []string
	api.see = func(r *http.Request, _ []byte) {
		if manager := r.URL.Query().Get("fieldManager"); strings.Contains(r.URL.Path, "/configmaps") {
			managers = append(managers, strings.TrimSuffix(manager, string(work.UID))+r.URL.Query().Get("force"))
		}
	}
	options := appliedwork.ApplyOptions{Concurrency: 1, FieldManager: "all",
		ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: {FieldManager: "one", Force: true}}}
	apply := func() {
		t.Helper()
		if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, options); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	objects[0], objects[1] = manifest("a", "2"), manifest("b", "2")
	apply()
	var got []string
	for _, m := range managers {
		if m != "" && !slices.Contains(got, m) {
			got = append(got, m)
		}
	}
	if want := []string{"all-", "one-", "all-false", "one-true"}; !slices.Equal(got, want) {
		t.Errorf("the managers are %q, want %q", got, want)
	}
	managers, options.ByKey[key], objects[1] = nil, appliedwork.ObjectOptions{Force: true}, manifest("b", "3")
	apply()
	if !slices.Contains(managers, "all-true") {
		t.Errorf("without a manager of its own, an object has that of all: %q", managers)
	}
	options.ByKey[key] = appliedwork.ObjectOptions{FieldManager: strings.Repeat("x", 91)}
	if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, options); !errors.Is(err,
		appliedwork.ErrInvalidInput) {
		t.Errorf("a manager of 91 characters: %v", err)
	}
}
