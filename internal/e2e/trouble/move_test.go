// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestMoveToAnotherBroker: a cluster moves from one pair of source and broker to another pair. The
// sources have the same ID and no connection to each other. No work is applied again, and the old
// source can remove the cluster.
func TestMoveToAnotherBroker(t *testing.T) {
	for name, kept := range map[string]bool{"with a store": true, "without a store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := newScene(t, mosquitto.Options{}), newScene(t, mosquitto.Options{})
			works := newFile(t)
			options := func() (o work.AgentOptions) {
				o.Sources = []string{"hub"}
				if kept {
					o.Store = works.store()
				}
				return o
			}
			old := before.source(work.SourceOptions{})
			old.inventoryComplete()
			a := before.agent(options())
			a.apply()
			for i := range 5 {
				old.create("cluster1", fmt.Sprintf("app%d", i), "1")
			}
			old.set("cluster1", "app0", "2")
			const all = "app0=2/2 app1=1/1 app2=1/1 app3=1/1 app4=1/1"
			shows(t, "before", old.works("cluster1"), all)
			a.stop()

			fresh := after.source(work.SourceOptions{})
			for i := range 5 {
				fresh.create("cluster1", fmt.Sprintf("app%d", i), map[bool]string{true: "2", false: "1"}[i == 0])
			}
			fresh.inventoryComplete()
			a = after.newAgent(options())
			spy := spyOn(t, a.works())
			a.start(a.Agent)
			closed(t, "the agent's first connection", a.Ready())
			a.apply()
			shows(t, "after", fresh.works("cluster1"), all)
			fresh.set("cluster1", "app1", "3")
			fresh.delete("cluster1", "app2")
			shows(t, "at the new source", fresh.works("cluster1"), "app0=2/2 app1=3/3 app3=1/1 app4=1/1")
			for app, want := range map[string][]string{"app0": {"2"}, "app1": {"1", "3"}, "app4": {"1"}} {
				if diff := cmp.Diff(want, spy.now().values(app)); diff != "" {
					t.Errorf("values of %s at the agent (-want +got):\n%s", app, diff)
				}
			}

			for i := range 5 {
				old.delete("cluster1", fmt.Sprintf("app%d", i))
			}
			if err := old.Forget(t.Context(), "cluster1"); err != nil {
				t.Fatal(err)
			}
			shows(t, "at the old source", old.works("cluster1"), "")
			shows(t, "at the agent", a.works(), "app0=2/2 app1=3/3 app3=1/1 app4=1/1")
		})
	}
}
