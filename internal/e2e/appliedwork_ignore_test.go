// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
)

// checkIgnoreFields: ignored fields keep the values of others, whatever the manifest has, and cost
// no write.
func checkIgnoreFields(t *testing.T, g *ground) {
	g.create(namespaceOf("ignore"))
	deployment := func(version string, replicas int, image string) *unstructured.Unstructured {
		return parsed(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"ignore","name":"web","labels":{"version":%q}},"spec":{"replicas":%d,
			"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
				{"name":"log","image":"log:1","ports":[{"containerPort":80}]},{"name":"web","image":%q}]}}}}`, version, replicas, image)
	}
	web := deployment("", 0, "")
	patch := func(manager, body string) {
		_, err := g.at(web).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(body),
			metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			t.Error(err)
		}
	}
	var before func() // runs before the next apply
	config := g.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if before != nil && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/deployments/web") {
				do := before
				before = nil
				do()
			}
			return next.RoundTrip(r)
		})
	})
	x := g.tools(config, nil)
	work := x.ensure(t, "ignore")
	options := appliedwork.ObjectOptions{IgnoreFields: []string{"/spec/replicas",
		"/spec/template/spec/containers/1/image"}}
	key := appliedwork.Key{Group: "apps", Kind: "Deployment", Namespace: "ignore", Name: "web"}
	apply := func(obj *unstructured.Unstructured, result string) {
		t.Helper()
		opts := appliedwork.ApplyOptions{ByKey: map[appliedwork.Key]appliedwork.ObjectOptions{key: options}}
		changes, err := x.applier.Apply(t.Context(), work, objects(obj), opts)
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, result)
	}
	is := func(version string, replicas int64, image string) {
		t.Helper()
		live := g.get(web)
		containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
		n, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
		got := fmt.Sprint(live.GetLabels()["version"], " ", n, " ", containers[1].(map[string]any)["image"])
		if wanted := fmt.Sprint(version, " ", replicas, " ", image); got != wanted {
			t.Errorf("the deployment has %s, want %s", got, wanted)
		}
	}

	apply(deployment("1", 2, "web:1"), "1 created")
	apply(deployment("1", 2, "web:1"), "1 unchanged")
	apply(deployment("1", 3, "web:2"), "1 unchanged") // only ignored fields differ
	is("1", 2, "web:1")
	apply(deployment("2", 3, "web:2"), "1 configured") // we still own the fields, with their live values
	is("2", 2, "web:1")
	patch("autoscaler", `{"spec":{"replicas":7}}`)
	apply(deployment("2", 3, "web:2"), "1 unchanged")
	apply(deployment("3", 3, "web:2"), "1 configured")
	is("3", 7, "web:1")
	for _, e := range g.get(web).GetManagedFields() {
		if strings.HasPrefix(e.Manager, "appliedwork-") && strings.Contains(e.FieldsV1.GetRawString(), "f:replicas") {
			t.Errorf("%s manages the replicas: %s", e.Manager, e.FieldsV1.GetRawString())
		}
	}

	// Others change the image after the read. Force would overwrite it.
	options.Force = true
	before = func() {
		patch("operator", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:operator"}]}}}}`)
	}
	apply(deployment("4", 3, "web:2"), "1 configured")
	is("4", 7, "web:operator")
	if before != nil {
		t.Error("there was no apply")
	}
	options = appliedwork.ObjectOptions{Strategy: appliedwork.StrategyUpdate, IgnoreFields: options.IgnoreFields}
	apply(deployment("5", 3, "web:2"), "1 configured")
	is("5", 7, "web:operator")

	// Fields that are ignored only after others have changed them.
	options = appliedwork.ObjectOptions{Force: true,
		IgnoreChangedFields: []string{"/spec/replicas", "/spec/template/spec/containers/0/image"}}
	apply(deployment("6", 3, "web:2"), "1 configured")
	is("6", 7, "web:2")
	patch("operator", `{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:operator"}]}}}}`)
	apply(deployment("6", 3, "web:2"), "1 unchanged")
	options.IgnoreChangedFields = options.IgnoreChangedFields[1:]
	apply(deployment("6", 3, "web:2"), "1 configured")
	is("6", 3, "web:2")

	// A field that the manifest no longer has is removed, unless it is ignored.
	gone := deployment("7", 3, "web:2")
	unstructured.RemoveNestedField(gone.Object, "spec", "replicas")
	options = appliedwork.ObjectOptions{Force: true, IgnoreFields: []string{"/spec/replicas"}}
	apply(gone, "1 configured")
	is("7", 3, "web:2")
	options.IgnoreFields = nil
	apply(gone, "1 configured")
	is("7", 1, "web:2") // the default
}
