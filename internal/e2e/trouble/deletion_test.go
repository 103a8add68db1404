// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble03DeletionReachesAgentThatWasOffline: the reason for the agent's absence does not
// matter, nor do restarts of other processes meanwhile. In each case the deleted work is the only
// work of the cluster.
func TestTrouble03DeletionReachesAgentThatWasOffline(t *testing.T) {
	t.Parallel()
	for _, tc := range []absence{
		{name: "link", reason: "the process lives, its link is cut"},
		{name: "link and broker", brokerRestarts: true, reason: "the broker keeps nothing for anybody"},
		{name: "agent with store", agentStops: true, reason: "its list has the work"},
		{name: "agent without store", agentStops: true, agentForgot: true, reason: "its list is empty, its cluster is not"},
		{name: "source restarts", sourceRestarts: true, reason: "the deletion is in its store"},
		{name: "both restart", agentStops: true, sourceRestarts: true, reason: "both continue from their stores"},
		{name: "both restart, agent without store", agentStops: true, agentForgot: true, sourceRestarts: true,
			reason: "only the source remembers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(t)
		})
	}
}

// absence lists the events while a work is deleted.
type absence struct {
	name, reason            string
	agentStops, agentForgot bool
	sourceRestarts          bool
	brokerRestarts          bool
}

func (tc absence) run(t *testing.T) {
	s := newScene(t, mosquitto.Options{})
	sourceFile, agentFile := newFile(t), newFile(t)
	agentOptions := func() work.AgentOptions {
		o := work.AgentOptions{Sources: []string{"hub"}}
		if !tc.agentForgot {
			o.Store = agentFile.store()
		}
		return o
	}
	h := s.source(work.SourceOptions{Store: sourceFile.store()})
	h.inventoryComplete()
	a := s.agent(agentOptions())
	a.apply()
	h.create("cluster1", "app", "1")
	shows(t, "the source before", h.works("cluster1"), "app=1/1")
	if tc.agentStops {
		a.crash()
	} else {
		a.leave()
	}
	h.delete("cluster1", "app")
	if tc.brokerRestarts {
		s.broker.Kill()
		s.broker.Restart()
		h.connected()
	}
	if tc.sourceRestarts {
		h.stop()
		h = s.source(work.SourceOptions{Store: sourceFile.store()})
	}
	if got := state(t, h.works("cluster1")); got != "-app=1/1" {
		t.Errorf("while the agent is away the source shows %q (%s)", got, tc.reason)
	}
	if tc.agentStops {
		a = s.newAgent(agentOptions())
		a.apply() // receives the deletion, and cleans up
		spy := spyOn(t, a.works())
		a.start(a.Agent)
		shows(t, "the source after the agent's return", h.works("cluster1"), "")
		cleaned := false
		for _, e := range spy.now().of("app") {
			cleaned = cleaned || e.deleting && e.finalizers > 0
		}
		if !cleaned {
			t.Errorf("the controller was not shown what to clean up (%s): %v", tc.reason, spy.of("app"))
		}
	} else {
		a.comeBack()
		shows(t, "the source after the agent's return", h.works("cluster1"), "")
	}
	shows(t, "the agent", a.works(), "")
}
