// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

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

// TestApplyReachesOtherSide: a source's apply reaches the agent, and an agent's apply of the status
// reaches the source. managedFields stay on the side that made them.
func TestApplyReachesOtherSide(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		created, err := apply(t, h.works("cluster1"), "one", `, labels: {a: b}}
spec: {workload: {manifests: [{kind: ConfigMap, apiVersion: v1, metadata: {name: x}}]}, deleteOption: {}}`)
		if err != nil {
			t.Fatal(err)
		}
		if created.UID == "" || created.Generation != 1 ||
			created.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeForeground {
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

// TestAgentCannotApplySpec: an apply on an agent cannot change a spec or create a work. A source
// rejects the apply of a status.
func TestAgentCannotApplySpec(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		if _, err := apply(t, a.works(), "agent",
			"}\nspec: {deleteOption: {propagationPolicy: Orphan}}"); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "belongs to the work's source") {
			t.Errorf("apply of a spec: %v", err)
		}
		data := []byte(strings.Replace(appHead, "app", "none", 1) + "}")
		if _, err := a.works().Patch(s.t.Context(), "none", types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "agent"}); !apierrors.IsNotFound(err) {
			t.Errorf("apply of a missing work: %v", err)
		}
		if _, err := apply(t, h.works("cluster1"), "hub", "}\nstatus: {}", "status"); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("apply of a status on the source: %v", err)
		}
	})
}
