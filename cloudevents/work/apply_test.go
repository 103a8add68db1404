// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

func apply(t *testing.T, works worktyped.ManifestWorkInterface, manager, rest string, subresources ...string) (*workv1.ManifestWork, error) {
	t.Helper()
	return works.Patch(t.Context(), "app", types.ApplyPatchType, []byte(appHead+rest), metav1.PatchOptions{FieldManager: manager}, subresources...)
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

// TestApplyTravels: a source's apply reaches the agent, and an agent's apply of the status reaches
// the source. managedFields stay on the side that made them.
func TestApplyTravels(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		created, err := apply(t, h.works("cluster1"), "one", `, labels: {a: b}}
spec: {workload: {manifests: [{kind: ConfigMap, apiVersion: v1, metadata: {name: x}}]}, deleteOption: {}}`)
		if err != nil {
			t.Fatal(err)
		}
		if created.UID == "" || created.Generation != 1 || created.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeForeground {
			t.Errorf("created: %+v", created)
		}
		s.settle()
		got := a.get("app")
		if len(got.ManagedFields) > 0 || got.Labels["a"] != "b" || len(got.Spec.Workload.Manifests) != 1 {
			t.Errorf("on the agent: %+v", got)
		}

		if _, err := apply(t, a.works(), "agent", `}
status: {conditions: [{type: A, status: 'True', reason: R, message: m, lastTransitionTime: '2026-01-01T00:00:00Z'}]}`, "status"); err != nil {
			t.Fatal(err)
		}
		if _, err := apply(t, a.works(), "labeller", `, labels: {mine: x}}`); err != nil {
			t.Fatal(err)
		}
		s.settle()
		if got := messageOf(h.get("cluster1", "app"), "A"); got != "m" {
			t.Errorf("the hub sees the message %q", got)
		}
		if diff := cmp.Diff("one Apply ", managersOf(h.get("cluster1", "app"))); diff != "" {
			t.Errorf("managers on the hub (-want +got):\n%s", diff)
		}

		// The source's changes do not disturb the managedFields of the agent.
		if _, err := apply(t, h.works("cluster1"), "one", `, labels: {a: c}}`); err != nil {
			t.Fatal(err)
		}
		s.settle()
		got = a.get("app")
		if diff := cmp.Diff(map[string]string{"a": "c", "mine": "x"}, got.Labels); diff != "" {
			t.Errorf("labels on the agent (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("agent Apply status, labeller Apply ", managersOf(got)); diff != "" {
			t.Errorf("managers on the agent (-want +got):\n%s", diff)
		}
	})
}

// TestNeverApplied: other writes add no managedFields before the first apply.
func TestNeverApplied(t *testing.T) {
	works := offline(t, work.SourceOptions{}).ManifestWorks("cluster1")
	obj := newWork("app", "1")
	obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1"}}
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
		{"other words", `{"kind":"A", "apiVersion":"v1","whole":1.0,"more":1e3,"text":"<&>","none":null}`,
			"}\nspec: {workload: {manifests: [{apiVersion: v1, kind: A, text: '<&>', more: 1000, whole: 1, none: null}]}}",
			"the order of members and the form of numbers mean nothing"},
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

// TestApplyOnAgent: an apply on an agent cannot change a spec or create a work. A source rejects
// the apply of a status.
func TestApplyOnAgent(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		if _, err := apply(t, a.works(), "agent", "}\nspec: {deleteOption: {propagationPolicy: Orphan}}"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "belongs to the work's source") {
			t.Errorf("apply of a spec: %v", err)
		}
		data := []byte(strings.Replace(appHead, "app", "none", 1) + "}")
		if _, err := a.works().Patch(s.t.Context(), "none", types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "agent"}); !apierrors.IsNotFound(err) {
			t.Errorf("apply of a missing work: %v", err)
		}
		if _, err := apply(t, h.works("cluster1"), "hub", "}\nstatus: {}", "status"); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("apply of a status on the source: %v", err)
		}
	})
}

// TestApplyBesideUnknownMetadata: a manifest keeps unknown metadata fields after an apply of other
// fields. An API server would have removed them before.
func TestApplyBesideUnknownMetadata(t *testing.T) {
	inScene(t, func(s *scene) {
		works := s.source(work.SourceOptions{}).works("cluster1")
		w := newWork("app", "1")
		const raw = `{"kind":"ConfigMap","metadata":{"unknown":1,"labels":null,"name":"x"},"apiVersion":"v1"}`
		w.Spec.Workload.Manifests[0].Raw = []byte(raw)
		if _, err := works.Create(s.t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := apply(s.t, works, "one", ", labels: {a: b}}")
		if err != nil {
			t.Fatal(err)
		}
		if have := string(got.Spec.Workload.Manifests[0].Raw); have != raw || got.Generation != 1 || got.Labels["a"] != "b" {
			t.Errorf("generation %d, labels %v, manifest %s", got.Generation, got.Labels, have)
		}
	})
}

// TestApplyConcurrently: if many managers apply a new object concurrently, one of them creates it
// and no apply is lost.
func TestApplyConcurrently(t *testing.T) {
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
