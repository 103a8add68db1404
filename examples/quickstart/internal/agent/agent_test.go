// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
	"github.com/spokewire/sdk-go/examples/quickstart/internal/memcluster"
)

func TestApplyAndReport(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("w", namespace, configMap)
		w := f.work("w")
		if diff := cmp.Diff([]string{workv1.ManifestWorkFinalizer}, w.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		want := []string{
			"Applied=True AppliedManifestWorkComplete gen 1: Apply manifest work complete",
			"Available=True ResourcesAvailable gen 1: All resources are available",
		}
		if diff := cmp.Diff(want, conditions(w.Status.Conditions)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		metas := []workv1.ManifestResourceMeta{
			{Ordinal: 0, Version: "v1", Kind: "Namespace", Resource: "namespaces", Name: "demo"},
			{Ordinal: 1, Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: "a"},
		}
		for i, m := range w.Status.ResourceStatus.Manifests {
			if diff := cmp.Diff(metas[i], m.ResourceMeta); diff != "" {
				t.Errorf("manifest %d (-want +got):\n%s", i, diff)
			}
			if !meta.IsStatusConditionTrue(m.Conditions, "Applied") || !meta.IsStatusConditionTrue(m.Conditions, "Available") {
				t.Errorf("manifest %d: %v", i, conditions(m.Conditions))
			}
		}
		if got := f.live(configMap); got == nil || got.GetAnnotations()[memcluster.CreatedBy] != "w" {
			t.Errorf("in the cluster: %v", got)
		}
		if e := <-f.events; e != (agent.Event{Work: "w", Generation: 1}) {
			t.Errorf("observed %+v", e)
		}
	})
}

func TestRetryUntilNamespaceExists(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("later", inside)
		w := f.work("later")
		applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
		if applied == nil || applied.Status != metav1.ConditionFalse ||
			!strings.Contains(applied.Message, `namespaces "demo" not found`) {
			t.Fatalf("Applied is %v", applied)
		}
		if meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkAvailable) {
			t.Error("Available, but the object is not there")
		}
		f.create("first", namespace)
		<-time.After(agent.DefaultRetryAtMost) // fake time
		f.settle()
		if w := f.work("later"); !meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied) {
			t.Errorf("not applied after its namespace came: %v", conditions(w.Status.Conditions))
		}
	})
}

func TestInvalidManifestDoesNotStopOthers(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("w", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: x}}", configMap)
		if f.live(configMap) == nil {
			t.Error("the second manifest was not applied")
		}
		w := f.work("w")
		want := []string{
			`Applied=False AppliedManifestWorkFailed gen 1: Failed to apply manifest work: Widget "x": no matches for kind "Widget" in version "example.com/v1"`,
			"Available=False ResourcesNotAvailable gen 1: 1 of 2 resources are available",
		}
		if diff := cmp.Diff(want, conditions(w.Status.Conditions)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if e := <-f.events; e.Err == nil {
			t.Errorf("observed %+v without an error", e)
		}
	})
}

func TestUpdateChangesAndPrunes(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.existing(strings.Replace(configMap, "name: a", "name: mine", 1))
		f.create("w", namespace, configMap, strings.Replace(configMap, "name: a", "name: mine", 1))
		f.update("w", func(s *workv1.ManifestWorkSpec) {
			s.Workload.Manifests = raw(t, strings.Replace(namespace, "name: demo", "name: demo, labels: {new: label}", 1))
		})
		if got := f.live(namespace); got == nil || got.GetLabels()["new"] != "label" {
			t.Errorf("the changed object is %v", got)
		}
		if f.live(configMap) != nil {
			t.Error("an object that the update left out is still there")
		}
		if f.live(strings.Replace(configMap, "name: a", "name: mine", 1)) == nil {
			t.Error("an object that was there before the work was deleted")
		}
		w := f.work("w")
		if applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied); applied.ObservedGeneration != 2 ||
			len(w.Status.ResourceStatus.Manifests) != 1 {
			t.Errorf("status after the update: %+v", w.Status)
		}
	})
}

func TestDelete(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.existing(strings.Replace(configMap, "k: v", "mine: v", 1))
		f.create("w", namespace, inside, configMap)
		f.delete("w")
		if _, err := f.works.Get(t.Context(), "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the work is still there: %v", err)
		}
		if f.live(namespace) != nil || f.live(inside) != nil {
			t.Error("objects of the work are still there")
		}
		if f.live(configMap) == nil {
			t.Error("an object that was there before the work was deleted with it")
		}
		<-f.events
		if e := <-f.events; e != (agent.Event{Work: "w", Generation: 2, Deleted: true}) {
			t.Errorf("observed %+v", e)
		}
	})
}

func TestDeleteOption(t *testing.T) {
	for _, tt := range []struct {
		reason string
		option workv1.DeleteOption
		stays  bool
	}{
		{"everything is orphaned", workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}, true},
		{"this one is orphaned", workv1.DeleteOption{
			PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
			SelectivelyOrphan: &workv1.SelectivelyOrphan{
				OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "default", Name: "a"}},
			},
		}, true},
		{"nothing is orphaned", workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			withAgent(t, func(f fixture) {
				f.create("w", configMap)
				f.update("w", func(s *workv1.ManifestWorkSpec) { s.DeleteOption = &tt.option })
				f.delete("w")
				if stays := f.live(configMap) != nil; stays != tt.stays {
					t.Errorf("the object stays: %v, want %v", stays, tt.stays)
				}
			})
		})
	}
}
