// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

func TestBuiltIn(t *testing.T) {
	for _, tt := range []struct {
		group, version, kind string
		resource             string // empty: not built in
		namespaced           bool
		reason               string
	}{
		{"", "v1", "ConfigMap", "configmaps", true, "a namespaced kind of the core group"},
		{"", "v1", "Namespace", "namespaces", false, "a namespace lives in none"},
		{"", "v1", "Endpoints", "endpoints", true, "a plural that is already one"},
		{"apps", "v1", "Deployment", "deployments", true, "a kind with a group"},
		{"networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, "y becomes ies"},
		{"networking.k8s.io", "v1", "Ingress", "ingresses", true, "s becomes ses"},
		{"rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, "cluster-scoped"},
		{"rbac.authorization.k8s.io", "v1", "Role", "roles", true, "namespaced beside a cluster-scoped sibling"},
		{"storage.k8s.io", "v1", "StorageClass", "storageclasses", false, "cluster-scoped"},
		{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false,
			"not in client-go's scheme"},
		{"apiregistration.k8s.io", "v1", "APIService", "apiservices", false, "not in client-go's scheme either"},
		{"extensions", "v1beta1", "Deployment", "", false, "removed in Kubernetes 1.16"},
		{"batch", "v1beta1", "CronJob", "", false, "removed in Kubernetes 1.25"},
		{"batch", "v1", "CronJob", "cronjobs", true, "what came in its place"},
		{"", "v1", "DeleteOptions", "", false, "an option is no object"},
		{"apps", "v1", "DeploymentList", "", false, "a list is no object"},
		{"policy", "v1", "Eviction", "", false, "a request is not stored"},
		{"autoscaling", "v1", "Scale", "", false, "a subresource is not stored"},
		{"apps", "v9", "Deployment", "", false, "a version that does not exist"},
		{"demo.example.com", "v1", "Greeting", "", false, "a custom kind"},
	} {
		t.Run(tt.group+"/"+tt.version+" "+tt.kind, func(t *testing.T) {
			gvk := schema.GroupVersionKind{Group: tt.group, Version: tt.version, Kind: tt.kind}
			got, ok := kinds.BuiltIn(gvk)
			want := kinds.Kind{}
			if tt.resource != "" {
				want = kinds.Kind{GVK: gvk, Resource: tt.resource, Namespaced: tt.namespaced}
			}
			if ok != (tt.resource != "") {
				t.Errorf("BuiltIn(%v) = %v: %s", gvk, ok, tt.reason)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tt.reason, diff)
			}
		})
	}
}

func TestMinor(t *testing.T) {
	text, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("k8s.io/client-go v0.%d.", kinds.Minor); !strings.Contains(string(text), want) {
		t.Errorf("go.mod has no %q", want)
	}
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true}
  - {name: v1beta1, served: true, storage: false}
  - {name: v1alpha1, served: false, storage: false}
`

func TestDefined(t *testing.T) {
	want := []kinds.Kind{
		{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets"},
		{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}, Resource: "widgets"},
	}
	got, err := kinds.Defined(parse(t, widgets))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("served versions only (-want +got):\n%s", diff)
	}
	if got, err := kinds.Defined(parse(t, "{apiVersion: v1, kind: ConfigMap}")); len(got) != 0 || err != nil {
		t.Errorf("Defined(ConfigMap) = %v, %v; want nothing", got, err)
	}
}

func TestDefinedRefuses(t *testing.T) {
	for _, tt := range []struct{ reason, old, new, want string }{
		{"no group", "group: example.com", "", "no spec.group"},
		{"no plural", ", plural: widgets", "", "spec.names.plural"},
		{"name unlike plural and group", "name: widgets.example.com", "name: widget", `must be named "widgets.example.com"`},
		{"nothing served", "served: true", "served: false", "serves no version"},
		{"a wrong type", "served: true", "served: [yes]", "not a valid CustomResourceDefinition"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := kinds.Defined(parse(t, strings.ReplaceAll(widgets, tt.old, tt.new)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Defined: %v; want an error with %q", err, tt.want)
			}
		})
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}
