// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/metertest"
)

// claims publishes a status of a cluster for a work. The cluster may have guessed the resource ID
// of the work.
func (s *scene) claims(cluster, id string, edit func(*codec.Status)) {
	s.t.Helper()
	status := &codec.Status{
		Header:  codec.Header{ID: "x-" + id, Source: "hub", Cluster: cluster, Agent: "evil-agent", Time: time.Now().UTC()},
		WorkRef: codec.WorkRef{ResourceID: id, Version: 1},
		Status:  appliedStatus("done"),
	}
	edit(status)
	topic, event, err := codec.ManifestWork.Encode(status)
	if err != nil {
		s.t.Fatal(err)
	}
	publish(s, cloudevents.Message{Topic: topic, Event: event})
}

// TestClusterNamesForeignWork: a message of one cluster with the ID of another cluster's work does
// not change that work. This also holds if the source has forgotten the work.
func TestClusterNamesForeignWork(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known: %t", known), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				l := &link{Transport: s.bus.Transport()}
				a := s.agentOn(l, work.AgentOptions{ClusterName: "good", Sources: []string{"hub"}})
				h.create("good", newWork("app", "1"))
				s.settle()
				l.setCut(true)
				h.kill()
				h = s.source(work.SourceOptions{})
				if known {
					h.create("good", newWork("app", "2"))
				}
				h.complete()
				s.settleProcesses()
				s.claims("evil", codec.ResourceID("hub", "good", "app"), func(*codec.Status) {})
				s.settle()
				if known && applied(h.get("good", "app")) != "" {
					t.Error("the source shows what a foreign cluster says of its work")
				}
				l.setCut(false)
				s.settleProcesses()
				want := 0
				if known {
					want = 1
				} else if names := a.names(); len(names) == 1 && a.get(names[0]).DeletionTimestamp != nil {
					a.setFinalizers(names[0])
				}
				s.settle()
				list, err := a.works().List(s.t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != want || known && valueOf(t, &list.Items[0]) != "2" {
					t.Errorf("the agent has %d works, want %d", len(list.Items), want)
				}
			})
		})
	}
}

// TestUnknownWorksAreBounded: the number of unknown works that a cluster can make its source store
// is bounded. Unknown works do not displace works that the user deletes.
func TestUnknownWorksAreBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		const listed = 2000
		registry := prometheus.NewPedanticRegistry()
		h := s.source(work.SourceOptions{MetricsRegisterer: registry, MaxClusterBytes: 1 << 20})
		h.complete()
		s.settleProcesses()
		h.create("cluster1", newWork("app", "1"))
		a := s.agent(work.AgentOptions{})
		s.settle()
		a.setFinalizers("app", "example.com/slow")
		h.delete("cluster1", "app")
		s.settle()
		list := &codec.SpecResync{
			Header: codec.Header{ID: "x", Time: time.Now().UTC(), Source: "hub", Cluster: "cluster1", Agent: "evil-agent", ResyncID: "x"},
			Scope:  codec.ScopeListed, TargetSource: "hub", AgentSession: "evil",
		}
		for i := range listed {
			list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id-", i), Version: 1, UID: "u", Source: "hub"})
		}
		topic, event, err := codec.ManifestWork.Encode(list)
		if err != nil {
			t.Fatal(err)
		}
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if m.Topic != "/sources/hub/clusters/cluster1/statusresync" { // otherwise the honest agent would answer
				deliver(m)
			}
		})
		s.claims("cluster1", "id-x", func(*codec.Status) {})
		s.settleProcesses()
		s.bus.Intercept(nil)
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		s.claims("cluster1", "id-x", func(*codec.Status) {})
		s.settle()
		state := work.StateOf(h.Source)
		tombstones := state.Tombstones
		if state.Works != tombstones+1 || tombstones < 800 || tombstones > 1000 || state.Expiring != tombstones {
			t.Errorf("the source has %d works, %d tombstones and %d in the order of their expiry, want about 900 tombstones",
				state.Works, tombstones, state.Expiring)
		}
		const overBudget = "events_refused_total reason=over_budget"
		refused := metertest.Values(t, registry)[overBudget]
		if least := float64(listed + 1 - tombstones); refused < least || refused > least+1 { // the answer to the agent may count too
			t.Errorf("%v were refused, want %v", refused, least)
		}
		most := tombstones
		a.setFinalizers("app")
		s.settle()
		if items := h.list("cluster1").Items; len(items) != 0 {
			t.Errorf("the source still has %d works that were deleted", len(items))
		}
		// Removed works make room, and so do the 16 KiB of the deleted work.
		for i := range 20 {
			s.claims("cluster1", fmt.Sprint("id-", i), func(status *codec.Status) {
				status.Version = soon()
				status.Status.Conditions[0].Type = codec.ConditionDeleted
			})
		}
		s.claims("cluster1", "id-1999", func(*codec.Status) {})
		s.settle()
		if tombstones := work.StateOf(h.Source).Tombstones; tombstones != most-20+1 {
			t.Errorf("%d tombstones after 20 of %d have gone and another has come", tombstones, most)
		}
		if now := metertest.Values(t, registry)[overBudget]; now != refused {
			t.Errorf("%v were refused afterwards", now-refused)
		}
	})
}
