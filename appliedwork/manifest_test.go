// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestObjectsFromGoCode applies objects with values that no decoder produces, from a Go
// program.
func TestObjectsFromGoCode(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	made := manifest("made", "1")
	made.Object["count"] = 3
	made.Object["metadata"].(map[string]any)["labels"] = map[string]string{"app": "shop"}
	broken := manifest("broken", "1")
	broken.Object["count"] = math.NaN()
	objects := []*unstructured.Unstructured{made, broken, manifest("plain", "1")}
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, objects, appliedwork.ApplyOptions{})
	if !errors.Is(err, appliedwork.ErrInvalidObject) || !strings.Contains(err.Error(), "broken") ||
		changes.String() != "2 created, 1 failed" {
		t.Errorf("%v, %v", changes, err)
	}
}

// TestInvalidObjectsAreExplained checks that the errors of invalid objects help to correct
// them.
func TestInvalidObjectsAreExplained(t *testing.T) {
	for _, test := range []struct{ name, object, want string }{
		{"a list", `{"apiVersion":"v1","kind":"List","items":[]}`, "each of its items"},
		{"a typed list", `{"apiVersion":"v1","kind":"ConfigMapList","items":[]}`, "each of its items"},
		{"two slashes", `{"apiVersion":"apps/v1/v2","kind":"Deployment","metadata":{"name":"web"}}`, "apps/v1/v2"},
		{"metadata is a string", `{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}`, "no metadata.name"},
	} {
		_, err := appliedwork.Identify(object("%s", test.object))
		if !errors.Is(err, appliedwork.ErrInvalidObject) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
	for _, test := range []struct{ object, want string }{
		{`{}`, "invalid object: it has no kind"},
		{`{"metadata":{"namespace":"shop","name":"web"}}`, "invalid object: shop/web has no kind"},
		{`{"kind":"ConfigMap","metadata":{"name":"web"}}`, "invalid object: ConfigMap web has no apiVersion"},
		{`{"apiVersion":"v1","kind":"ConfigMap"}`, "invalid object: ConfigMap has no metadata.name"},
	} {
		if _, err := appliedwork.Identify(object("%s", test.object)); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.object, err, test.want)
		}
	}
}

// TestEnsureWithoutName compares the error for an empty name with its exact text.
func TestEnsureWithoutName(t *testing.T) {
	tracker, _ := newTracker(t, newFakeAPI(), nil)
	_, err := tracker.Ensure(t.Context(), "", v1alpha1.AppliedWorkSpec{WorkName: "w"})
	if !errors.Is(err, appliedwork.ErrInvalidInput) ||
		err.Error() != "invalid input: the name of the AppliedWork is empty: use NameFor" {
		t.Error(err)
	}
}

// TestObjectFromClusterIsUnchanged checks that an object that was read from the cluster and is
// applied again is unchanged, although it then has a hash.
func TestObjectFromClusterIsUnchanged(t *testing.T) {
	api := newFakeAPI()
	tracker, work := newTracker(t, api, nil)
	obj := manifest("a", "1")
	obj.SetAnnotations(map[string]string{"mine": "1"})
	hashes := map[string]bool{}
	for range 4 {
		if _, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{obj},
			appliedwork.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		live, err := api.client().Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(
			obj.GetNamespace()).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj.SetAnnotations(live.GetAnnotations())
		hashes[live.GetAnnotations()[v1alpha1.AnnotationAppliedHashPrefix+string(work.UID)]] = true
	}
	if len(hashes) != 1 || hashes[""] {
		t.Errorf("the hashes are %v", hashes)
	}
}

// TestSecretWithStringDataIsUnchanged checks that a Secret is sent in the form that the API
// server stores, so that an unchanged Secret compares as equal.
func TestSecretWithStringDataIsUnchanged(t *testing.T) {
	api := newFakeAPI()
	api.kinds["v1"].APIResources = append(api.kinds["v1"].APIResources,
		metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	tracker, work := newTracker(t, api, nil)
	secret := object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"s"},"data":{"a":"YQ=="},"stringData":{"b":"secret-b"}}`)
	bad := object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"bad"},"stringData":{"b":{"secret-c":"secret-d"}}}`)
	changes, err := appliedwork.NewApplier(tracker).Apply(t.Context(), work, []*unstructured.Unstructured{secret, bad},
		appliedwork.ApplyOptions{})
	if changes.String() != "1 created, 1 failed" || !errors.Is(err, appliedwork.ErrInvalidObject) ||
		strings.Contains(err.Error(), "secret-") {
		t.Errorf("%v, %v: the error must not have the content", changes, err)
	}
	stored := &unstructured.Unstructured{Object: api.objects["/api/v1/namespaces/shop/secrets/s"]}
	data, _, _ := unstructured.NestedStringMap(stored.Object, "data")
	if data["a"] != "YQ==" || data["b"] != base64.StdEncoding.EncodeToString([]byte("secret-b")) ||
		stored.Object["stringData"] != nil {
		t.Errorf("%v", stored.Object)
	}
	if _, there, _ := unstructured.NestedMap(secret.Object, "stringData"); !there {
		t.Error("the caller's object was changed")
	}
}
