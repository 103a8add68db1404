// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package clientset_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// The tests in internal/e2e compare applies with a real API server. These tests check the
// interaction of applies with the other functions of a source and an agent.

const appHead = "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: app"

func apply(
	t *testing.T, works worktyped.ManifestWorkInterface, manager, rest string, subresources ...string,
) (*workv1.ManifestWork, error) {
	t.Helper()
	return works.Patch(t.Context(), "app", types.ApplyPatchType, []byte(appHead+rest),
		metav1.PatchOptions{FieldManager: manager}, subresources...)
}

// managersOf lists the managers in the managedFields of an object.
func managersOf(obj *workv1.ManifestWork) string {
	var out []string
	for _, m := range obj.ManagedFields {
		out = append(out, m.Manager+" "+string(m.Operation)+" "+m.Subresource)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestManagedFieldsStartWithFirstApply: other writes add no managedFields before the first apply.
func TestManagedFieldsStartWithFirstApply(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	obj := newWork("app", "1")
	obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: "v1"}}
	obj, err := works.Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	obj.Labels = map[string]string{"a": "b"}
	if obj, err = works.Update(t.Context(), obj, metav1.UpdateOptions{FieldManager: "two"}); err != nil {
		t.Fatal(err)
	}
	if len(obj.ManagedFields) > 0 {
		t.Errorf("managedFields: %s", managersOf(obj))
	}
	if obj, err = apply(t, works, "three", ", labels: {c: d}}"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("before-first-apply Update , three Apply ", managersOf(obj)); diff != "" {
		t.Errorf("after an apply (-want +got):\n%s", diff)
	}
	obj.Labels["a"] = "c"
	if obj, err = works.Update(t.Context(), obj, metav1.UpdateOptions{FieldManager: "two"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("before-first-apply Update , three Apply , two Update ", managersOf(obj)); diff != "" {
		t.Errorf("after an update (-want +got):\n%s", diff)
	}
}

// TestApplyKeepsManifests: an apply of other fields, or of an equal manifest in another notation,
// does not change the spec.
func TestApplyKeepsManifests(t *testing.T) {
	tests := []struct{ name, manifest, config, reason string }{
		{"labels", `{"kind":"A", "apiVersion":"v1","large":9007199254740993,"whole":1.0,"more":1e3,"text":"<&>","none":null}`,
			", labels: {a: b}}", "what is merged with it is decoded on the way, and must come back"},
		{"another notation", `{"kind":"A", "apiVersion":"v1","whole":1.0,"more":1e3,"text":"<&>","none":null}`,
			"}\nspec: {workload: {manifests: [{apiVersion: v1, kind: A, text: '<&>', more: 1000, whole: 1, none: null}]}}",
			"the order of members and the form of numbers are not part of the value"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
			obj := newWork("app", "1")
			obj.Spec.Workload.Manifests[0].Raw = []byte(tc.manifest)
			if _, err := works.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			after, err := apply(t, works, "one", tc.config)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.manifest, string(after.Spec.Workload.Manifests[0].Raw)); diff != "" || after.Generation != 1 {
				t.Errorf("%s: generation %d (-want +got):\n%s", tc.reason, after.Generation, diff)
			}
		})
	}
}

// TestApplyKeepsUnknownMetadata: a manifest keeps unknown metadata fields after an apply of other
// fields. An API server would have removed them before.
func TestApplyKeepsUnknownMetadata(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	w := newWork("app", "1")
	const raw = `{"kind":"ConfigMap","metadata":{"unknown":1,"labels":null,"name":"x"},"apiVersion":"v1"}`
	w.Spec.Workload.Manifests[0].Raw = []byte(raw)
	if _, err := works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := apply(t, works, "one", ", labels: {a: b}}")
	if err != nil {
		t.Fatal(err)
	}
	if have := string(got.Spec.Workload.Manifests[0].Raw); have != raw || got.Generation != 1 || got.Labels["a"] != "b" {
		t.Errorf("generation %d, labels %v, manifest %s", got.Generation, got.Labels, have)
	}
}

// TestConcurrentAppliesLoseNothing: if many managers apply a new object concurrently, one of them
// creates it and no apply is lost.
func TestConcurrentAppliesLoseNothing(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	names := strings.Split("abcdefgh", "")
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			_, err := works.Patch(t.Context(), "app", types.ApplyPatchType, []byte(appHead+", labels: {"+name+": v}}"),
				metav1.PatchOptions{FieldManager: name, Force: ptr.To(false)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := works.Get(t.Context(), "app", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Labels) != len(names) || len(got.ManagedFields) != len(names) || got.Generation != 1 {
		t.Errorf("labels %v, managers %s, generation %d", got.Labels, managersOf(got), got.Generation)
	}
}
