// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// conflict is a cluster on which works of several sources have the same name. The first source owns
// the name.
type conflict struct {
	*scene
	hubs  map[string]*hub
	agent *spoke
}

func inConflict(t *testing.T, script func(*conflict)) {
	t.Helper()
	inScene(t, func(s *scene) {
		c := &conflict{scene: s, hubs: map[string]*hub{}, agent: s.agent(work.AgentOptions{})}
		s.settle()
		for _, id := range []string{"one", "two", "three"} {
			c.hubs[id] = s.source(work.SourceOptions{SourceID: id})
			s.settle()
			c.create(id)
		}
		c.serve()
		script(c)
	})
}

func (c *conflict) create(id string) {
	c.hubs[id].create("cluster1", newWork("app", "of "+id))
	c.settle()
}

// restart replaces the process of a source. The new process has no works.
func (c *conflict) restart(id string) {
	c.hubs[id].kill()
	c.hubs[id] = c.source(work.SourceOptions{SourceID: id})
	c.settle()
}

func (c *conflict) complete(id string) {
	if err := c.hubs[id].InventoryComplete(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.settleProcesses()
}

func (c *conflict) remove(id string) {
	c.hubs[id].delete("cluster1", "app")
	c.settle()
}

// serve acts as a work controller, for five rounds.
func (c *conflict) serve() {
	for range 5 {
		for _, name := range c.agent.names() {
			w := c.agent.get(name)
			switch {
			case w.DeletionTimestamp != nil:
				c.agent.setFinalizers(name)
			case len(w.Finalizers) == 0:
				c.agent.setFinalizers(name, workv1.ManifestWorkFinalizer)
			case applied(w) != valueOf(c.t, w):
				c.agent.report(name, valueOf(c.t, w))
			}
		}
		c.settle()
	}
}

// state returns the state of the work at each source: the applied value, the reason of Degraded, or
// "gone". For the agent it is the value of the work that owns the name.
func (c *conflict) state() map[string]string {
	out := map[string]string{}
	for id, h := range c.hubs {
		w, err := h.works("cluster1").Get(c.t.Context(), "app", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			out[id] = "gone"
		case err != nil:
			c.t.Error(err)
		case conditionOf(w, workv1.WorkDegraded) != "":
			out[id] = conditionOf(w, workv1.WorkDegraded)
		default:
			out[id] = "applied " + applied(w)
		}
	}
	for _, name := range c.agent.names() {
		out["agent"] = valueOf(c.t, c.agent.get(name))
	}
	return out
}

// TestNamePassesToWaitingSource: a name passes from one source to the next, in any order of
// restarts and deletions. Waiting works have the condition Degraded.
func TestNamePassesToWaitingSource(t *testing.T) {
	const waits = "True NameConflict"
	tests := []struct {
		name   string
		script func(*conflict)
		want   map[string]string
	}{{
		name:   "the first keeps the name",
		script: func(*conflict) {},
		want:   map[string]string{"agent": "of one", "one": "applied of one", "two": waits, "three": waits},
	}, {
		name:   "the first keeps the name after all reconnect",
		script: func(c *conflict) { c.reconnect() },
		want:   map[string]string{"agent": "of one", "one": "applied of one", "two": waits, "three": waits},
	}, {
		name:   "the first deletes",
		script: func(c *conflict) { c.remove("one") },
		want:   map[string]string{"agent": "of two", "one": "gone", "two": "applied of two", "three": waits},
	}, {
		name:   "a waiting source deletes",
		script: func(c *conflict) { c.remove("two") },
		want:   map[string]string{"agent": "of one", "one": "applied of one", "two": "gone", "three": waits},
	}, {
		name:   "a waiting source deletes, then the first",
		script: func(c *conflict) { c.remove("two"); c.remove("one") },
		want:   map[string]string{"agent": "of three", "one": "gone", "two": "gone", "three": "applied of three"},
	}, {
		name:   "the first deletes, then the next, before the work controller has cleaned up",
		script: func(c *conflict) { c.remove("one"); c.remove("two") },
		want:   map[string]string{"agent": "of three", "one": "gone", "two": "gone", "three": "applied of three"},
	}, {
		name:   "all sources delete",
		script: func(c *conflict) { c.remove("three"); c.remove("one"); c.remove("two") },
		want:   map[string]string{"one": "gone", "two": "gone", "three": "gone"},
	}, {
		name: "a waiting source updates its work",
		script: func(c *conflict) {
			c.hubs["two"].setValue("cluster1", "app", "newer of two")
			c.settle()
			c.remove("one")
		},
		want: map[string]string{"agent": "newer of two", "one": "gone", "two": "applied newer of two", "three": waits},
	}, {
		name:   "the first creates its work again: it waits behind the others",
		script: func(c *conflict) { c.remove("one"); c.serve(); c.create("one") },
		want:   map[string]string{"agent": "of two", "one": waits, "two": "applied of two", "three": waits},
	}, {
		name:   "the first restarts and creates its work again: it keeps the name",
		script: func(c *conflict) { c.restart("one"); c.create("one"); c.complete("one") },
		want:   map[string]string{"agent": "of one", "one": "applied of one", "two": waits, "three": waits},
	}, {
		name:   "the first restarts without its work",
		script: func(c *conflict) { c.restart("one"); c.complete("one") },
		want:   map[string]string{"agent": "of two", "one": "gone", "two": "applied of two", "three": waits},
	}, {
		name:   "a waiting source restarts and creates its work again",
		script: func(c *conflict) { c.restart("two"); c.create("two"); c.complete("two") },
		want:   map[string]string{"agent": "of one", "one": "applied of one", "two": waits, "three": waits},
	}, {
		name:   "a waiting source restarts without its work",
		script: func(c *conflict) { c.restart("two"); c.complete("two"); c.remove("one") },
		want:   map[string]string{"agent": "of three", "one": "gone", "two": "gone", "three": "applied of three"},
	}, {
		name: "the first deletes while the agent is offline",
		script: func(c *conflict) {
			c.bus.Disconnect()
			c.remove("one")
			c.bus.Reconnect()
			c.settleProcesses()
		},
		want: map[string]string{"agent": "of two", "one": "gone", "two": "applied of two", "three": waits},
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inConflict(t, func(c *conflict) {
				tc.script(c)
				c.serve()
				if diff := cmp.Diff(tc.want, c.state()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNameConflictAfterAgentRestarts: after an agent restarts without a store, another source may
// own the name. One source owns it, the others wait, and all are served in the end.
func TestNameConflictAfterAgentRestarts(t *testing.T) {
	inConflict(t, func(c *conflict) {
		for range 3 {
			c.agent.kill()
			c.agent = c.scene.agent(work.AgentOptions{})
			c.settle()
			c.serve()
			state, holder := c.state(), ""
			for id := range c.hubs {
				switch state[id] {
				case "applied of " + id:
					holder += id
				case "True NameConflict", "gone":
				default:
					t.Errorf("%s sees %q", id, state[id])
				}
			}
			if len(state) == len(c.hubs) && holder == "" { // no source has a work
				continue
			}
			if c.hubs[holder] == nil || state["agent"] != "of "+holder {
				t.Fatalf("%q have the name: %v", holder, state)
			}
			c.remove(holder)
			c.serve()
		}
		want := map[string]string{"one": "gone", "two": "gone", "three": "gone"}
		if diff := cmp.Diff(want, c.state()); diff != "" {
			t.Errorf("after all deletions (-want +got):\n%s", diff)
		}
	})
}

// TestWaitingWorkCanBeDeleted: a work with a name that another source owns can be deleted. This
// holds even if the agent restarts and receives the other source's work first.
func TestWaitingWorkCanBeDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("app", "of one"))
		s.settle()
		two.create("cluster1", newWork("app", "of two"))
		s.settle()
		a.kill()
		two.delete("cluster1", "app")
		s.settle()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if !strings.HasPrefix(m.Topic, "/sources/two/") || codec.IsPresence(m.Event) {
				deliver(m)
				return
			}
			go func() {
				time.Sleep(500 * time.Millisecond)
				deliver(m)
			}()
		})
		a = s.agent(work.AgentOptions{})
		s.settle()
		if _, err := two.works("cluster1").Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the deleted work: %v", err)
		}
		if got := a.get("app"); valueOf(t, got) != "of one" || got.DeletionTimestamp != nil {
			t.Errorf("the other source's work: value %q, deleted %v", valueOf(t, got), got.DeletionTimestamp)
		}
	})
}

// TestInvalidSpecReplacesWaitingSpec: a spec that waited for its name is not applied if a later,
// unreadable spec has replaced it.
func TestInvalidSpecReplacesWaitingSpec(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("app", "of one"))
		s.settle()
		two.create("cluster1", newWork("app", "outdated"))
		s.settle()
		s.spoilSpecs("two", unreadable)
		two.setValue("cluster1", "app", "unreadable")
		s.settle()
		one.delete("cluster1", "app")
		s.settle()
		if got := a.names(); len(got) != 0 {
			t.Errorf("applied %v with value %q", got, valueOf(t, a.get("app")))
		}
		if got := conditionOf(two.get("cluster1", "app"), workv1.WorkDegraded); got != "True InvalidSpec" {
			t.Errorf("the hub sees %q", got)
		}
	})
}

// TestNameConflict: the first source keeps the name. The other source receives a condition, and its
// work is applied when the name is free.
func TestNameConflict(t *testing.T) {
	inScene(t, func(s *scene) {
		one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
		a := s.agent(work.AgentOptions{})
		s.settle()
		one.create("cluster1", newWork("app", "of one"))
		s.settle()
		two.create("cluster1", newWork("app", "of two"))
		s.settle()
		if got := valueOf(t, a.get("app")); got != "of one" {
			t.Errorf("value %q", got)
		}
		if got := conditionOf(two.get("cluster1", "app"), workv1.WorkDegraded); got != "True NameConflict" {
			t.Errorf("the other source sees %q", got)
		}
		one.delete("cluster1", "app")
		s.settle()
		if got := valueOf(t, a.get("app")); got != "of two" {
			t.Errorf("after the name was free: value %q", got)
		}
		a.report("app", "served")
		s.settle()
		if got := two.get("cluster1", "app"); applied(got) != "served" || conditionOf(got, workv1.WorkDegraded) != "" {
			t.Errorf("status %+v", got.Status)
		}
	})
}
