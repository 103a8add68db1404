// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestSourceNotServedAnyMore: the works of a source that was removed from Sources stay, and keep
// their names, until that source deletes them. The agent logs this.
func TestSourceNotServedAnyMore(t *testing.T) {
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

				agent, err := work.NewAgent(s.bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Store: store, Sources: []string{"next"}})
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
				if text := logs(); strings.Count(text, "that Sources does not name") != 1 || !strings.Contains(text, `source="old" works=1`) {
					t.Errorf("logged:\n%s", text)
				}
				tc.end(s, old)
				s.settleProcesses()
				if a.get("app").DeletionTimestamp == nil {
					t.Fatal("the agent does not hear of the deletion")
				}
				a.setFinalizers("app")
				s.settle()
				if diff := cmp.Diff(map[string]string{"app": "of next "}, held(s.t, a.works().List)); diff != "" {
					t.Errorf("works of the agent after the deletion (-want +got):\n%s", diff)
				}
				if got := conditionOf(next.get("cluster1", "app"), workv1.WorkDegraded); got != "" {
					t.Errorf("the source that is served sees %q", got)
				}
			})
		})
	}
}
