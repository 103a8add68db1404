// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"slices"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble11NameConflict: the first source keeps the name of a work through every restart. The
// second source receives an error, and is served when the name is free.
func TestTrouble11NameConflict(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	works := newFile(t)
	one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
	one.inventoryComplete()
	two.inventoryComplete()
	options := func() work.AgentOptions {
		return work.AgentOptions{Sources: []string{"one", "two"}, Store: works.store()}
	}
	a := s.agent(options())
	a.apply()
	spy := spyOn(t, a.works())
	one.create("cluster1", "app", "of one")
	shows(t, "the first source", one.works("cluster1"), "app=of one/of one")
	two.create("cluster1", "app", "of two")
	conflict := "app=of two/!NameConflict"
	shows(t, "the second source", two.works("cluster1"), conflict)

	s.broker.Kill()
	s.broker.Restart()
	two.crash()
	two = s.source(work.SourceOptions{SourceID: "two"})
	two.create("cluster1", "app", "of two")
	two.inventoryComplete()
	shows(t, "the second source after its restart", two.works("cluster1"), conflict)
	if got := spy.now().values("app"); !slices.Equal(got, []string{"of one"}) {
		t.Errorf("values at the agent: %v", got)
	}
	a.crash()
	a = s.agent(options())
	a.apply()
	spy = spyOn(t, a.works())
	two.set("cluster1", "app", "of two, later")
	shows(t, "the second source after the agent's restart", two.works("cluster1"), "app=of two, later/!NameConflict")
	shows(t, "the first source after the agent's restart", one.works("cluster1"), "app=of one/of one")

	one.delete("cluster1", "app")
	shows(t, "the second source, served", two.works("cluster1"), "app=of two, later/of two, later")
	shows(t, "the first source in the end", one.works("cluster1"), "")
	// The agent may or may not have received the later spec before the name was free.
	got := slices.DeleteFunc(spy.now().values("app"), func(value string) bool { return value == "of two" })
	if !slices.Equal(got, []string{"of one", "of two, later"}) {
		t.Errorf("values at the agent in the end: %v", got)
	}
	one.create("cluster1", "app", "of one again")
	shows(t, "the first source, second now", one.works("cluster1"), "app=of one again/!NameConflict")
	two.delete("cluster1", "app")
	shows(t, "the first source, served again", one.works("cluster1"), "app=of one again/of one again")
}
