// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memcluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/memcluster"
)

// fixture is a cluster with methods that accept objects as texts.
type fixture struct {
	*testing.T
	*memcluster.Cluster
	clock *testclock.FakePassiveClock
}

func newFixture(t *testing.T) fixture {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return fixture{T: t, Cluster: memcluster.New(clock), clock: clock}
}

func (f fixture) kind(obj *unstructured.Unstructured) kinds.Kind {
	f.Helper()
	k, err := f.Kind(context.Background(), obj.GroupVersionKind())
	if err != nil {
		f.Fatal(err)
	}
	return k
}

// apply applies an object as a field manager. A "!" at the end of the name forces the apply.
func (f fixture) apply(manager, text string) (*unstructured.Unstructured, error) {
	f.Helper()
	obj := parse(f.T, text)
	name, force := strings.CutSuffix(manager, "!")
	return f.Apply(context.Background(), f.kind(obj), obj, metav1.ApplyOptions{FieldManager: name, Force: force})
}

func (f fixture) mustApply(manager, text string) *unstructured.Unstructured {
	f.Helper()
	obj, err := f.apply(manager, text)
	if err != nil {
		f.Fatal(err)
	}
	return obj
}

func (f fixture) get(text string) (*unstructured.Unstructured, error) {
	f.Helper()
	obj := parse(f.T, text)
	return f.Get(context.Background(), f.kind(obj), obj.GetNamespace(), obj.GetName())
}

func (f fixture) delete(text string) error {
	f.Helper()
	obj := parse(f.T, text)
	return f.Delete(context.Background(), f.kind(obj), obj.GetNamespace(), obj.GetName(), obj.GetUID())
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = obj.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func configMap(data string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {" + data + "}}"
}

func TestApplyCountsVersions(t *testing.T) {
	f := newFixture(t)
	first := f.mustApply("m", configMap("x: '1', z: '1'"))
	if first.GetUID() == "" || first.GetResourceVersion() == "" || first.GetGeneration() != 1 ||
		first.GetCreationTimestamp().Time.IsZero() {
		t.Errorf("a new object has %v", first.Object["metadata"])
	}
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	same := f.mustApply("m", configMap("x: '1', z: '1'"))
	if same.GetResourceVersion() != first.GetResourceVersion() {
		t.Error("an apply that changes nothing raised the resourceVersion")
	}
	changed := f.mustApply("m", configMap("x: '2'"))
	data, _, _ := unstructured.NestedStringMap(changed.Object, "data")
	if len(data) != 1 || data["x"] != "2" {
		t.Errorf("data is %v; x was changed and y left out", data)
	}
	if changed.GetGeneration() != 2 || changed.GetResourceVersion() == first.GetResourceVersion() ||
		changed.GetUID() != first.GetUID() {
		t.Errorf("a changed object has %v", changed.Object["metadata"])
	}
	labelled := f.mustApply("m", strings.Replace(configMap("x: '2'"), "name: a", "name: a, labels: {l: v}", 1))
	if labelled.GetGeneration() != 2 || labelled.GetResourceVersion() == changed.GetResourceVersion() {
		t.Errorf("a label is a change without a new generation, but: %v", labelled.Object["metadata"])
	}
	labelled.SetName("changed by the caller")
	if got, err := f.get(configMap("")); err != nil || got.GetName() != "a" {
		t.Errorf("the store handed out its own object: %v, %v", got, err)
	}
}

func TestApplyConflict(t *testing.T) {
	f := newFixture(t)
	f.mustApply("one", configMap("x: '1'"))
	f.mustApply("two", configMap("z: '2'"))
	if _, err := f.apply("two", configMap("x: '2', z: '2'")); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `"one"`) {
		t.Errorf("another manager's field: %v; want Conflict naming it", err)
	}
	forced := f.mustApply("two!", configMap("x: '2', z: '2'"))
	if x, _, _ := unstructured.NestedString(forced.Object, "data", "x"); x != "2" {
		t.Errorf("forced, but x is %q", x)
	}
	for _, owner := range forced.GetManagedFields() {
		if owner.Manager == "one" && strings.Contains(owner.FieldsV1.GetRawString(), "f:x") {
			t.Errorf("the field was taken by force, but its first owner still has %v", owner.FieldsV1)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	for _, tt := range []struct {
		reason, text string
		is           func(error) bool
		want         string
	}{
		{"the namespace is missing", strings.Replace(configMap(""), "default", "nowhere", 1), apierrors.IsNotFound,
			`namespaces "nowhere" not found`},
		{"no namespace given", "{apiVersion: v1, kind: Pod, metadata: {name: p}}", apierrors.IsBadRequest,
			"needs a namespace"},
		{"a namespace too many", "{apiVersion: v1, kind: Node, metadata: {name: node1, namespace: default}}",
			apierrors.IsBadRequest, "cluster-scoped"},
		{"a name with a slash", strings.Replace(configMap(""), "name: a,", "name: a/b,", 1), apierrors.IsBadRequest,
			"invalid name"},
		{"a field that does not exist",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: default}, spec: {replicsa: 2}}",
			apierrors.IsBadRequest, "spec.replicsa"},
		{"a field of a wrong type", configMap("x: 1"), apierrors.IsBadRequest, "not valid"},
		{"managed fields in the manifest", strings.Replace(configMap(""), "name: a,",
			"name: a, managedFields: [{manager: x}],", 1), apierrors.IsBadRequest, "managedFields"},
		{"a definition without names",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.b}, spec: {group: b}}",
			apierrors.IsBadRequest, "spec.names"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := newFixture(t).apply("m", tt.text)
			if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Apply: %v; want %q", err, tt.want)
			}
		})
	}
	if _, err := newFixture(t).apply("", configMap("")); !apierrors.IsBadRequest(err) {
		t.Errorf("no field manager: %v; want BadRequest", err)
	}
}

func TestCustomResources(t *testing.T) {
	const widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: default}, spec: {any: 1}, " +
		"status: {ignored: true}}"
	const crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " +
		"widgets.example.com}, spec: " +
		"{group: example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: " +
		"true}, {name: v2, served: true}]}}"
	f := newFixture(t)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	if _, err := f.Kind(t.Context(), gvk); !meta.IsNoMatchError(err) {
		t.Fatalf("before the definition: %v; want no match", err)
	}
	f.mustApply("m", crd)
	if w := f.mustApply("m", widget); w.Object["status"] != nil {
		t.Errorf("the status came with the object: %v", w.Object["status"])
	}
	if got, err := f.get(strings.Replace(widget, "/v1", "/v2", 1)); err != nil || got.GetAPIVersion() != "example.com/v2" {
		t.Errorf("the other version: %v, %v", got, err)
	}
	if w := f.mustApply("m",
		strings.NewReplacer("/v1", "/v2", "any: 1", "any: 2").Replace(widget)); w.GetGeneration() != 2 {
		t.Errorf("applied in the other version: generation %d, want 2", w.GetGeneration())
	}
	f.mustApply("m", strings.Replace(crd, ", {name: v2, served: true}", "", 1))
	if _, err := f.Kind(t.Context(), gvk.GroupKind().WithVersion("v2")); !meta.IsNoMatchError(err) {
		t.Errorf("a version no longer served: %v; want no match", err)
	}
	widgets, _ := f.Kind(t.Context(), gvk)
	if err := f.delete(crd); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Kind(t.Context(), gvk); !meta.IsNoMatchError(err) || len(f.List(t.Context(), widgets)) != 0 {
		t.Errorf("after the definition: %v and %d widgets; want no match and none", err, len(f.List(t.Context(), widgets)))
	}
}

func TestDelete(t *testing.T) {
	f := newFixture(t)
	const ns = "{apiVersion: v1, kind: Namespace, metadata: {name: demo}}"
	inside := strings.Replace(configMap(""), "default", "demo", 1)
	f.mustApply("m", ns)
	f.mustApply("m", inside)
	f.mustApply("m", configMap(""))
	if err := f.delete(strings.Replace(inside, "name: a", "name: a, uid: other", 1)); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v; want Conflict", err)
	}
	if err := f.delete(strings.Replace(ns, "demo", "kube-system", 1)); !apierrors.IsForbidden(err) {
		t.Errorf("a system namespace: %v; want Forbidden", err)
	}
	if err := f.delete(ns); err != nil {
		t.Fatal(err)
	}
	if _, err := f.get(inside); !apierrors.IsNotFound(err) {
		t.Errorf("inside a deleted namespace: %v; want NotFound", err)
	}
	if err := f.delete(inside); !apierrors.IsNotFound(err) {
		t.Errorf("deleting again: %v; want NotFound", err)
	}
	if _, err := f.get(configMap("")); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}

func TestStatus(t *testing.T) {
	f := newFixture(t)
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: default}, spec: " +
		"{replicas: 2}}"
	f.mustApply("m", deployment)
	for _, want := range []int64{0, 1, 2, 2} {
		d, err := f.get(deployment)
		if err != nil {
			t.Fatal(err)
		}
		if ready, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas"); ready != want {
			t.Errorf("readyReplicas is %d, want %d", ready, want)
		}
		f.clock.SetTime(f.clock.Now().Add(150 * time.Millisecond))
	}
	ns, err := f.get("{apiVersion: v1, kind: Namespace, metadata: {name: default}}")
	if err != nil {
		t.Fatal(err)
	}
	if phase, _, _ := unstructured.NestedString(ns.Object, "status", "phase"); phase != "Active" {
		t.Errorf("the namespace's phase is %q", phase)
	}
}

func TestConcurrentUse(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := strings.Replace(configMap("x: '1'"), "name: a", fmt.Sprintf("name: a%d", i%2), 1)
			if _, err := f.apply("m!", text); err != nil {
				t.Error(err)
			}
			if _, err := f.get(text); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	configMaps := f.kind(parse(t, configMap("")))
	if found := f.List(t.Context(), configMaps); len(found) != 2 || found[0].GetName() != "a0" {
		t.Errorf("found %v", found)
	}
}
