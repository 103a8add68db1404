// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/agent"
)

func configure(f fixture, resource workv1.ResourceIdentifier, c workv1.ManifestConfigOption) {
	f.Helper()
	c.ResourceIdentifier = resource
	f.update("w", func(s *workv1.ManifestWorkSpec) { s.ManifestConfigs = []workv1.ManifestConfigOption{c} })
}

var (
	webDeployment = workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "default", Name: "web"}
	aConfigMap    = workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "a"}
)

func TestFeedbackFollowsWorkload(t *testing.T) {
	withAgent(t, func(f fixture) {
		f.create("w", deployment)
		configure(f, webDeployment, workv1.ManifestConfigOption{FeedbackRules: []workv1.FeedbackRule{
			{Type: workv1.WellKnownStatusType},
			{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{
				{Name: "available", Path: `.status.conditions[?(@.type=="Available")].status`},
				{Name: "conditions", Path: ".status.conditions[0]"},
				{Name: "nowhere", Path: ".no.such.field"},
				{Name: "several", Path: ".status.conditions[0].*"},
				{Name: "nonsense", Path: ".["},
			}},
		}})
		ready := func() (values []workv1.FeedbackValue) {
			return f.work("w").Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values
		}
		integer := func(name string, n int64) workv1.FeedbackValue {
			return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.Integer, Integer: &n}}
		}
		if diff := cmp.Diff(integer("ReadyReplicas", 0), ready()[0]); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		<-time.After(time.Minute) // fake time
		f.settle()
		want := []workv1.FeedbackValue{
			integer("ReadyReplicas", 2), integer("Replicas", 2), integer("AvailableReplicas", 2),
			{Name: "available", Value: workv1.FieldValue{Type: workv1.String, String: ptr.To("True")}},
			{Name: "conditions", Value: workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: ptr.To(
				`{"message":"2 of 2 replicas are ready","reason":"MinimumReplicasAvailable","status":"True","type":"Available"}`)}},
		}
		if diff := cmp.Diff(want, ready()); diff != "" {
			t.Errorf("when ready (-want +got):\n%s", diff)
		}
	})
}

func TestUpdateStrategy(t *testing.T) {
	const others = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: theirs}}"
	for _, tt := range []struct {
		reason   string
		strategy *workv1.UpdateStrategy
		want     string // the value afterwards
		applied  bool
	}{
		{"no strategy overwrites", nil, "v", true},
		{"Update overwrites", &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}, "v", true},
		{"CreateOnly leaves what is there", &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}, "theirs",
			true},
		{"ReadOnly looks", &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}, "theirs", true},
		{"ServerSideApply respects others", &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}, "theirs",
			false},
		{"ServerSideApply by force", &workv1.UpdateStrategy{
			Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{Force: true,
				FieldManager: "work-agent-x"},
		}, "v", true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			withAgent(t, func(f fixture) {
				f.existing(others)
				w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "cluster1"}}
				w.Spec.Workload.Manifests = raw(t, configMap)
				w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ResourceIdentifier: aConfigMap,
					UpdateStrategy: tt.strategy}}
				if _, err := f.works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				f.settle()
				if k, _, _ := unstructured.NestedString(f.live(configMap).Object, "data", "k"); k != tt.want {
					t.Errorf("the value is %q, want %q", k, tt.want)
				}
				if e := <-f.events; (e.Err == nil) != tt.applied || e.Err != nil && !apierrors.IsConflict(e.Err) {
					t.Errorf("observed %+v", e)
				}
			})
		})
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := agent.New(agent.Options{ClusterName: "cluster1"}); err == nil {
		t.Error("New without works and cluster: no error")
	}
}
