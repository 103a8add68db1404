// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// claims is what some cluster says of a work, whose resource ID it may have guessed.
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

// TestClusterNamesForeignWork: what one cluster says of the ID of another's work changes nothing for that work, whether
// its source has it or has forgotten it.
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
				if err := h.InventoryComplete(s.t.Context()); err != nil {
					t.Fatal(err)
				}
				s.settle()
				s.claims("evil", codec.ResourceID("hub", "good", "app"), func(*codec.Status) {})
				s.settle()
				if known && applied(h.get("good", "app")) != "" {
					t.Error("the source shows what a foreign cluster says of its work")
				}
				l.setCut(false)
				s.settle()
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
