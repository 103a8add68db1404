// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// reports publishes a status of the work app of cluster1 as an agent of another implementation.
func (s *scene) reports(h *hub, uid types.UID, seq int64, status *workv1.ManifestWorkStatus) {
	s.t.Helper()
	id := codec.ResourceID("hub", "cluster1", "app")
	s.sends(codec.ManifestWork, &codec.Status{
		Header:     codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "other", Time: time.Now().UTC()},
		WorkRef:    codec.WorkRef{ResourceID: id, Version: work.SourceRecords(h.Source)[id].Version, UID: uid, Name: "app"},
		SequenceID: seq, Status: status,
	})
}

// TestStatusThatSchemaForbidsIsRefused: a status that an API server would reject is not shown.
// Until a valid status arrives, the work shows the last valid one and a condition that reports the
// refusal.
func TestStatusThatSchemaForbidsIsRefused(t *testing.T) {
	inScene(t, func(s *scene) {
		registry, store := prometheus.NewPedanticRegistry(), work.NewMemoryStore()
		options := work.SourceOptions{MetricsRegisterer: registry, Store: store}
		h := s.source(options)
		uid := h.create("cluster1", newWork("app", "1")).UID
		s.settle()
		s.reports(h, uid, 1, appliedStatus("good"))
		s.settle()
		s.reports(h, uid, 2, appliedStatus(strings.Repeat("x", 32<<10+1)))
		s.settle()
		expect := func(message, degraded string) {
			t.Helper()
			got := h.get("cluster1", "app")
			if applied(got) != message || conditionOf(got, workv1.WorkDegraded) != degraded {
				t.Errorf("the hub sees %.80q and Degraded %q, want %q and %q", applied(got), conditionOf(got, workv1.WorkDegraded),
					message, degraded)
			}
		}
		expect("good", "True StatusRefused")
		c := meta.FindStatusCondition(h.get("cluster1", "app").Status.Conditions, workv1.WorkDegraded)
		if c == nil || !strings.Contains(c.Message, "status.conditions[0].message") {
			t.Errorf("the condition is %+v, want the path of what is wrong", c)
		}
		metertest.Expect(t, registry, map[string]float64{"events_refused_total reason=schema": 1, "works_degraded": 1})
		h.setValue("cluster1", "app", "2") // its event is sent, but does not concern the status
		s.settle()
		expect("good", "True StatusRefused")
		h.kill()
		options.MetricsRegisterer = nil
		h = s.source(options)
		s.settle()
		expect("good", "True StatusRefused")
		s.reports(h, uid, 3, appliedStatus("better"))
		s.settle()
		expect("better", "")
	})
}

// TestSpecThatSchemaForbidsIsRefused: a spec that an API server would reject is not applied, and
// its source receives the field that is invalid.
func TestSpecThatSchemaForbidsIsRefused(t *testing.T) {
	inScene(t, func(s *scene) {
		registry := prometheus.NewPedanticRegistry()
		a := s.agent(work.AgentOptions{MetricsRegisterer: registry})
		s.settle()
		statuses := s.record("manifestsstatus")
		send := func(version int64, value string, edit func(*workv1.ManifestWorkSpec)) {
			obj := newWork("app", value)
			edit(&obj.Spec)
			s.sends(codec.ManifestWork, &codec.Spec{
				Header: codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Time: time.Now().UTC()},
				WorkRef: codec.WorkRef{ResourceID: codec.ResourceID("hub", "cluster1", "app"), Version: version, UID: "u",
					Name: "app"},
				AgentSession: work.StateOfAgent(a.Agent).Session, Work: obj,
			})
			s.settle()
		}
		degraded := func() string {
			t.Helper()
			last := statuses.last()
			m, err := codec.ManifestWork.Decode(last.Topic, last.Event)
			if err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(m.(*codec.Status).Status.Conditions, workv1.WorkDegraded)
			if c == nil {
				return ""
			}
			return c.Reason + ": " + c.Message
		}
		wrong := func(spec *workv1.ManifestWorkSpec) {
			spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "Sometimes"}
		}
		send(1, "1", wrong)
		if got := degraded(); !strings.HasPrefix(got, "InvalidSpec") ||
			!strings.Contains(got, "spec.deleteOption.propagationPolicy") {
			t.Errorf("the condition is %q", got)
		}
		if names := a.names(); len(names) != 0 {
			t.Errorf("the agent has %v", names)
		}
		// A source without an API server omits fields that have defaults.
		send(2, "2", func(spec *workv1.ManifestWorkSpec) {
			spec.ManifestConfigs = []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Name: "app", Namespace: "default"},
				FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}},
			}}
		})
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the agent has value %q of a good spec", got)
		}
		send(3, "3", wrong)
		if got := degraded(); !strings.HasPrefix(got, "InvalidSpec") {
			t.Errorf("the condition is %q", got)
		}
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the agent has value %q, want that of the last good spec", got)
		}
		metertest.Expect(t, registry, map[string]float64{"events_refused_total reason=schema": 2})
	})
}
