// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// counting is a source and an agent with a work controller that reports once for each generation,
// like controllers that filter events by generation.
type counting struct {
	t *testing.T
	*scene
	*hub
	*spoke
	agentOptions work.AgentOptions
	served       int64 // last reported generation; of is the UID of its object
	of           string
}

// serve reports on the work if its generation or UID differs from the last report.
func (c *counting) serve() {
	c.t.Helper()
	c.settle()
	w := c.spoke.get("app")
	if string(w.UID) == c.of && w.Generation == c.served {
		return
	}
	c.served, c.of = w.Generation, string(w.UID)
	about := fmt.Sprintf(
		`"status":"True","reason":"Tested","message":%q,"observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"`,
		valueOf(c.t, w), w.Generation)
	c.spoke.patch("app", fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Applied",%[1]s}],
		"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0},"conditions":[{"type":"Applied",%[1]s}]}]}}}`, about), "status")
	c.settle()
}

// want compares the status at the source, and its observed generations, with the expected values.
// spoke is the generation of the object on the cluster.
func (c *counting) want(when, value string, observed, generation, spoke int64) {
	c.t.Helper()
	c.settle()
	got, here := c.hub.get("cluster1", "app"), c.spoke.get("app")
	type seen struct {
		value                                 string
		observed, ofManifest, generation, obj int64
	}
	is := seen{value: applied(got), generation: got.Generation, obj: here.Generation}
	if len(got.Status.Conditions) > 0 {
		is.observed = got.Status.Conditions[0].ObservedGeneration
		is.ofManifest = got.Status.ResourceStatus.Manifests[0].Conditions[0].ObservedGeneration
	}
	if want := (seen{value, observed, observed, generation, spoke}); is != want {
		c.t.Errorf("%s: have %+v, want %+v", when, is, want)
	}
}

// wantNothing checks the generations at the source and on the cluster. It expects no condition with
// an observedGeneration at or above the generation of the source.
func (c *counting) wantNothing(generation, spoke int64) {
	c.t.Helper()
	c.settle()
	got, here := c.hub.get("cluster1", "app"), c.spoke.get("app")
	if got.Generation != generation || here.Generation != spoke {
		c.t.Errorf("generation %d, on the cluster %d, want %d and %d", got.Generation, here.Generation, generation, spoke)
	}
	for _, condition := range got.Status.Conditions {
		if condition.ObservedGeneration >= generation {
			c.t.Errorf("of generation %d is reported %+v", generation, condition)
		}
	}
}

// restartHub replaces the source with a new process that has no works.
func (c *counting) restartHub() {
	c.hub.kill()
	c.hub = c.source(work.SourceOptions{})
}

func inCount(t *testing.T, options work.AgentOptions, script func(*counting)) {
	t.Helper()
	inScene(t, func(s *scene) {
		c := &counting{t: s.t, scene: s, agentOptions: options, hub: s.source(work.SourceOptions{}), spoke: s.agent(options)}
		c.hub.create("cluster1", newWork("app", "1"))
		c.serve()
		c.hub.setValue("cluster1", "app", "2")
		c.serve()
		c.hub.setValue("cluster1", "app", "3")
		c.serve()
		c.want("at first", "3", 3, 3, 3)
		script(c)
	})
}

// TestGenerationAfterRestart: the generation of an agent's object increases with each change of its
// spec and only then, independent of the source's versions. The source receives reports with its
// own generations.
func TestGenerationAfterRestart(t *testing.T) {
	for name, script := range map[string]func(*counting){
		"an equal spec": func(c *counting) {
			c.restartHub()
			c.hub.create("cluster1", newWork("app", "3"))
			c.want("adopted", "3", 1, 1, 3) // applied already, so no new report
			c.hub.setValue("cluster1", "app", "4")
			c.want("before the report", "3", 1, 2, 4)
			c.serve()
			c.want("after it", "4", 2, 2, 4)
		},
		"another spec, which gets to the old number": func(c *counting) {
			c.restartHub()
			c.hub.create("cluster1", newWork("app", "a"))
			c.wantNothing(1, 4)
			c.serve()
			c.want("reported", "a", 1, 1, 4)
			c.hub.setValue("cluster1", "app", "b")
			c.settle()
			c.hub.setValue("cluster1", "app", "c")
			c.serve()
			c.want("at the old number", "c", 3, 3, 6)
			c.spoke.kill()
			for _, value := range []string{"d", "e", "f", "g"} {
				c.hub.setValue("cluster1", "app", value)
			}
			c.settle()
			c.spoke = c.agent(c.agentOptions)
			c.serve()
			c.want("one number again", "g", 7, 7, 7)
		},
		"the same generation at once": func(c *counting) {
			c.hub.kill()
			c.spoke.kill()
			c.hub = c.source(work.SourceOptions{})
			c.hub.create("cluster1", newWork("app", "a"))
			c.hub.setValue("cluster1", "app", "b")
			c.hub.setValue("cluster1", "app", "c")
			c.settle() // the agent does not receive the earlier specs
			c.spoke = c.agent(c.agentOptions)
			c.wantNothing(3, 4)
			c.serve()
			c.want("reported", "c", 3, 3, 4)
		},
		"a change and its reversal while the agent is offline": func(c *counting) {
			c.spoke.kill()
			c.hub.setValue("cluster1", "app", "4")
			c.hub.setValue("cluster1", "app", "3")
			c.settle()
			c.spoke = c.agent(c.agentOptions)
			c.want("as a watch of an API server shows it", "3", 3, 5, 5)
			c.serve()
			c.want("reported", "3", 5, 5, 5)
		},
		"a restart of the agent in between": func(c *counting) {
			c.restartHub()
			c.hub.create("cluster1", newWork("app", "a"))
			c.serve()
			c.spoke.kill()
			c.spoke = c.agent(c.agentOptions)
			c.spoke.report("app", "again")
			c.settle()
			c.spoke.patch("app", []byte(`{"status":{"conditions":null}}`), "status")
			c.served = 0
			c.serve()
			c.want("after it", "a", 1, 1, 4)
		},
		"a deletion": func(c *counting) {
			c.restartHub()
			c.hub.create("cluster1", newWork("app", "a"))
			c.serve()
			c.spoke.setFinalizers("app", workv1.ManifestWorkFinalizer)
			c.hub.delete("cluster1", "app")
			c.want("begun", "a", 1, 2, 5)
			c.hub.delete("cluster1", "app")
			c.reconnect()
			c.want("once", "a", 1, 2, 5)
		},
	} {
		t.Run(name, func(t *testing.T) { inCount(t, work.AgentOptions{Store: work.NewMemoryStore()}, script) })
	}
}

// TestGenerationOfBadSpec: a report on the last good spec does not count for a bad spec of the next
// process with the same generation.
func TestGenerationOfBadSpec(t *testing.T) {
	inCount(t, work.AgentOptions{}, func(c *counting) {
		c.spoilSpecs("hub", "{")
		c.restartHub()
		c.hub.create("cluster1", newWork("app", "a"))
		c.want("rejected", "3", 0, 1, 3)
		c.hub.setValue("cluster1", "app", "b")
		c.hub.setValue("cluster1", "app", "c")
		c.want("at the old number", "3", 0, 3, 3)
	})
}
