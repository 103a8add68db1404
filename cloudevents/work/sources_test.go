// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestSourceRemovedFromSources: the works of a source that was removed from Sources stay, and keep
// their names, until that source deletes them. The agent logs this.
func TestSourceRemovedFromSources(t *testing.T) {
	tests := []struct {
		name string
		end  func(s *scene, old *hub)
	}{{
		"deleted by name", func(_ *scene, old *hub) { old.delete("cluster1", "app") },
	}, {
		"deleted as unknown", func(s *scene, old *hub) {
			old.kill()
			if err := s.source(work.SourceOptions{SourceID: "old"}).InventoryComplete(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		},
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				store := work.NewMemoryStore()
				old, next := s.source(work.SourceOptions{SourceID: "old"}), s.source(work.SourceOptions{SourceID: "next"})
				old.create("cluster1", newWork("app", "of old"))
				first := s.agent(work.AgentOptions{Store: store})
				s.settle()
				first.setFinalizers("app", workv1.ManifestWorkFinalizer)
				first.kill()

				agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Store: store,
					Sources: []string{"next"}})
				if err != nil {
					t.Fatal(err)
				}
				p, logs := s.runLogged(agent)
				a := &spoke{Agent: agent, process: p, t: s.t, cluster: "cluster1"}
				next.create("cluster1", newWork("app", "of next"))
				next.complete()
				old.setValue("cluster1", "app", "not served")
				old.create("cluster1", newWork("more", "not served"))
				s.settle()
				if diff := cmp.Diff(map[string]string{"app": "of old "}, held(s.t, a.works().List)); diff != "" {
					t.Errorf("works of the agent (-want +got):\n%s", diff)
				}
				if text := logs(); strings.Count(text, "that Sources does not name") != 1 ||
					!strings.Contains(text, `source="old" works=1`) {
					t.Errorf("logged:\n%s", text)
				}
				tc.end(s, old)
				s.settleProcesses()
				if a.get("app").DeletionTimestamp == nil {
					t.Fatal("the deletion has not reached the agent")
				}
				a.setFinalizers("app")
				s.settle()
				if diff := cmp.Diff(map[string]string{"app": "of next "}, held(s.t, a.works().List)); diff != "" {
					t.Errorf("works of the agent after the deletion (-want +got):\n%s", diff)
				}
				if got := conditionOf(next.get("cluster1", "app"), workv1.WorkDegraded); got != "" {
					t.Errorf("the served source sees %q", got)
				}
			})
		})
	}
}

// TestManySources: an agent serves all sources. Each source sees only its own works, and a resync
// of one source does not change the works of another.
func TestManySources(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("first", "1"))
		two.create("cluster1", newWork("second", "2"))
		s.settle()
		a.report("first", "from one")
		a.report("second", "from two")
		s.settle()
		if got := applied(one.get("cluster1", "first")) + ", " +
			applied(two.get("cluster1", "second")); got != "from one, from two" {
			t.Errorf("statuses %q", got)
		}
		one.kill()
		three := s.source(work.SourceOptions{SourceID: "one"}) // restarted, without works
		if err := three.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settleProcesses()
		if diff := cmp.Diff([]string{"second"}, a.names()); diff != "" {
			t.Errorf("works (-want +got):\n%s", diff)
		}
		if _, err := two.works("cluster1").Get(t.Context(), "first", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("one source sees another's work: %v", err)
		}
	})
}

// TestForeignEvents: an event that contradicts its topic, or that is not for this agent, changes
// nothing.
func TestForeignEvents(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		before := a.get("app").ResourceVersion
		forge := func(source, cluster, name string, edit func(*codec.Spec)) {
			spec := &codec.Spec{
				Header:  codec.Header{ID: "x", Source: source, Cluster: cluster},
				WorkRef: codec.WorkRef{ResourceID: codec.ResourceID(source, cluster, name), Version: soon(), UID: "u", Name: name},
				Work:    newWork(name, "forged"),
			}
			edit(spec)
			topic, event, err := codec.ManifestWork.Encode(spec)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: strings.Replace(topic, "/sources/evil/", "/sources/hub/", 1), Event: event})
		}
		forge("other", "cluster1", "app", func(*codec.Spec) {}) // not in Sources
		// on the topic of the source hub
		forge("evil", "cluster1", "app", func(*codec.Spec) {})
		forge("hub", "cluster1", "app", func(s *codec.Spec) { s.Version = 1<<63 - 1 }) // exhausts the versions
		// an enhancement peer's work of that name
		forge("hub", "cluster1", "app", func(s *codec.Spec) { s.UID, s.ResourceID = "", "id" })
		s.settle()
		if got := a.get("app"); got.ResourceVersion != before || valueOf(t, got) != "1" {
			t.Errorf("a forged event changed the work: %q", valueOf(t, got))
		}
	})
}
