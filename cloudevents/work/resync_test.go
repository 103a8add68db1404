// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestManyLostStatuses: when an agent's list shows more lost statuses than fit into one request,
// the source requests all of them.
func TestManyLostStatuses(t *testing.T) {
	const count = 1000
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{ResyncInterval: time.Minute})
		s.settle()
		for i := range count {
			h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
		}
		s.settle()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if !strings.HasSuffix(m.Topic, "/manifestsstatus") {
				deliver(m)
			}
		})
		for i := range count {
			a.report(fmt.Sprintf("w%d", i), "ok")
		}
		s.settle()
		s.bus.Intercept(nil)
		time.Sleep(2 * time.Minute)
		seen := 0
		list, err := h.works("cluster1").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if applied(&list.Items[i]) == "ok" {
				seen++
			}
		}
		if seen != count {
			t.Errorf("the hub sees %d of %d statuses after a resync", seen, count)
		}
	})
}

// TestIncompleteList: a list with a lost chunk is requested again, without any other event of its
// cluster.
func TestIncompleteList(t *testing.T) {
	inScene(t, func(s *scene) {
		s.source(work.SourceOptions{})
		s.settle()
		var requests atomic.Int32
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.HasSuffix(m.Topic, "/statusresync") {
				requests.Add(1)
			}
			deliver(m)
		})
		topic, event, err := codec.ManifestWork.Encode(&codec.SpecResync{
			Header:       codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "a", ResyncID: "r"},
			AgentSession: "s", TargetSource: "hub", Chunk: codec.Chunk{Index: 0, Count: 2},
			Entries: []codec.SpecEntry{{ResourceID: "id", Version: 1, UID: "u", Source: "hub"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		time.Sleep(10 * time.Minute)
		if n := requests.Load(); n != 1 {
			t.Errorf("the list was asked for %d times", n)
		}
	})
}

// TestResyncChangesNothing: a resync of a work on which both sides agree changes nothing at the
// source.
func TestResyncChangesNothing(t *testing.T) {
	tests := []struct {
		name, reason string
		prepare      func(*scene, *hub)
	}{
		{"gone from the cluster", "other finalizers hold it on the hub", func(s *scene, h *hub) {
			w := newWork("app", "1")
			w.Finalizers = []string{"example.com/mine"}
			h.create("cluster1", w)
			s.settle()
			h.delete("cluster1", "app")
		}},
		{"too large", "the work has the condition already", func(s *scene, h *hub) {
			h.create("cluster1", newWork("app", "1"))
			s.settle()
			s.bus.SetMaxPacketSize(4000)
			h.setValue("cluster1", "app", strings.Repeat("x", 4000))
		}},
		{"never reported on", "there is nothing to report",
			func(_ *scene, h *hub) { h.create("cluster1", newWork("app", "1")) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{ResyncInterval: time.Minute})
				s.agent(work.AgentOptions{ResyncInterval: time.Minute})
				if err := h.InventoryComplete(s.t.Context()); err != nil {
					t.Fatal(err)
				}
				s.settle()
				tc.prepare(s, h)
				s.settle()
				before := h.get("cluster1", "app")
				time.Sleep(5 * time.Minute)
				if diff := cmp.Diff(before, h.get("cluster1", "app")); diff != "" {
					t.Errorf("resyncs changed a work, but %s (-before +after):\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// TestRestartedAgentCleansUp: a deleted work that an earlier process may have applied remains until
// the user of the current process has cleaned it up. The way in which the agent learns of the
// deletion does not matter.
func TestRestartedAgentCleansUp(t *testing.T) {
	tests := []struct {
		name   string
		delete func(s *scene, h *hub) *spoke
	}{{
		name: "while the new process receives its works first",
		delete: func(s *scene, h *hub) *spoke {
			a := s.agent(work.AgentOptions{})
			time.Sleep(time.Second) // the spec has arrived, lists and informers still wait
			h.delete("cluster1", "app")
			return a
		},
	}, {
		name: "after a spec that could not be read",
		delete: func(s *scene, h *hub) *spoke {
			s.spoilSpecs("hub", unreadable)
			h.setValue("cluster1", "app", "2")
			a := s.agent(work.AgentOptions{})
			s.settle()
			s.bus.Intercept(nil)
			h.delete("cluster1", "app")
			return a
		},
	}, {
		name: "after a spec that could not be read and one that could",
		delete: func(s *scene, h *hub) *spoke {
			s.spoilSpecs("hub", unreadable)
			h.setValue("cluster1", "app", "2")
			a := s.agent(work.AgentOptions{})
			s.settle()
			s.bus.Intercept(nil)
			h.setValue("cluster1", "app", "3")
			s.settle()
			h.delete("cluster1", "app")
			return a
		},
	}, {
		name: "after a new spec in place of the answer",
		delete: func(s *scene, h *hub) *spoke {
			s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
				if m.Event.Extensions()["resyncid"] == nil || m.Topic != "/sources/hub/clusters/cluster1/manifests" {
					deliver(m)
				}
			})
			a := s.agent(work.AgentOptions{})
			s.settle()
			s.bus.Intercept(nil)
			h.setValue("cluster1", "app", "2")
			s.settle()
			h.delete("cluster1", "app")
			return a
		},
	}, {
		name: "by an event whose metadata cannot be read",
		delete: func(s *scene, h *hub) *spoke {
			s.spoilSpecs("hub", `{"metadata":7}`)
			h.delete("cluster1", "app")
			return s.agent(work.AgentOptions{})
		},
	}, {
		name: "in the time between",
		delete: func(s *scene, h *hub) *spoke {
			h.delete("cluster1", "app")
			return s.agent(work.AgentOptions{})
		},
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				first := s.agent(work.AgentOptions{})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				first.setFinalizers("app", workv1.ManifestWorkFinalizer)
				first.kill()
				second := tc.delete(s, h)
				s.settle()
				if got := h.get("cluster1", "app"); got.DeletionTimestamp == nil {
					t.Error("the hub does not show the deletion")
				}
				got := second.get("app")
				if diff := cmp.Diff([]string{workv1.ManifestWorkFinalizer}, got.Finalizers); diff != "" ||
					got.DeletionTimestamp == nil {
					t.Errorf("deleted %v, finalizers on the agent (-want +got):\n%s", got.DeletionTimestamp, diff)
				}
				second.setFinalizers("app")
				s.settle()
				if _, err := h.works("cluster1").Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("after the clean-up: %v", err)
				}
			})
		})
	}
}

// TestLateEventOfCompleteInventory: after a late event of a deleted work, the agent requests the
// work. A source with a complete inventory answers, and the agent does not show the work.
func TestLateEventOfCompleteInventory(t *testing.T) {
	inScene(t, func(s *scene) {
		lateEvent(s, func(h *hub) {
			if err := h.InventoryComplete(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		})
	})
}

// TestLostSequence: a status of an earlier process with a clock ahead does not outrank all later
// statuses.
func TestLostSequence(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		first := s.agent(work.AgentOptions{Clock: new(steppedClock).set(time.Hour)})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		var late []cloudevents.Message
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.HasSuffix(m.Topic, "/clusters/cluster1/manifestsstatus") {
				late = append(late, m)
				return
			}
			deliver(m)
		})
		first.report("app", "old")
		s.settle()
		first.kill()
		second := s.agent(work.AgentOptions{ResyncInterval: time.Minute})
		s.settle()
		s.bus.Intercept(nil)
		publish(s, late[len(late)-1])
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "old" {
			t.Fatalf("the late status was not accepted: the hub sees %q", got)
		}
		second.report("app", "new")
		time.Sleep(2 * time.Minute)
		second.report("app", "newer")
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "newer" {
			t.Errorf("the hub sees %q", got)
		}
	})
}

// TestReusedSequenceKeepsNewerStatus: an agent with a clock that was set back increments its
// sequence by one. Its next process does the same from the sequence that the source has. A late
// status of the first process must not replace a status of the second.
func TestReusedSequenceKeepsNewerStatus(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		wrong := new(steppedClock).set(time.Hour)
		first := s.agent(work.AgentOptions{Clock: wrong})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		first.report("app", "one")
		s.settle()
		wrong.set(0)
		var late []cloudevents.Message
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.HasSuffix(m.Topic, "/clusters/cluster1/manifestsstatus") {
				late = append(late, m)
				return
			}
			deliver(m)
		})
		first.report("app", "two")
		s.settle()
		first.kill()
		s.bus.Intercept(nil)
		second := s.agent(work.AgentOptions{ResyncInterval: time.Minute})
		s.settle()
		publish(s, late[0])
		second.report("app", "three")
		time.Sleep(2 * time.Minute)
		if got := applied(h.get("cluster1", "app")); got != "three" {
			t.Errorf("the hub sees %q", got)
		}
	})
}

// TestAgentForgetsDeletedWorks: an agent's memory of deleted works, and of sources without works,
// does not grow without bound.
func TestAgentForgetsDeletedWorks(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{TombstoneTTL: time.Hour})
		s.settle()
		for i := range 100 {
			for _, name := range []string{"again", fmt.Sprintf("once-%d", i)} {
				h.create("cluster1", newWork(name, "1"))
				s.settle()
				h.delete("cluster1", name)
				s.settle()
			}
			time.Sleep(30 * time.Minute)
		}
		for i := range 100 {
			topic, event, err := codec.ManifestWork.Encode(&codec.StatusResync{
				Header: codec.Header{ID: "x", Source: fmt.Sprintf("job-%d", i), ResyncID: "r"}, Broadcast: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: event})
		}
		synctest.Wait()
		if state := work.StateOfAgent(a.Agent); state.Sources != 1 || state.Works > 4 || state.Expiring > 6 {
			t.Errorf("the agent has %d sources, %d works, %d expiring tombstones", state.Sources, state.Works, state.Expiring)
		}
	})
}

// TestResyncInterval: messages that the broker lost are repaired without a reconnect, in both
// directions. A resync of equal states sends no spec and no status.
func TestResyncInterval(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{ResyncInterval: time.Minute})
		a := s.agent(work.AgentOptions{})
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "one")
		s.settle()

		var mu sync.Mutex
		specs, statuses := 0, 0
		lose := true
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasSuffix(m.Topic, "/clusters/cluster1/manifests"):
				specs++
			case strings.HasSuffix(m.Topic, "/clusters/cluster1/manifestsstatus"):
				statuses++
			}
			if !lose {
				deliver(m)
			}
		})
		h.setValue("cluster1", "app", "2")
		h.create("cluster1", newWork("new", "1"))
		a.report("app", "two")
		s.settle()
		mu.Lock()
		lose = false
		mu.Unlock()
		time.Sleep(time.Minute)
		s.settle()
		if got := valueOf(t, a.get("app")) + valueOf(t, a.get("new")); got != "21" {
			t.Errorf("values %q", got)
		}
		if got := applied(h.get("cluster1", "app")); got != "two" {
			t.Errorf("the hub sees status %q, want two", got)
		}
		mu.Lock()
		specs, statuses = 0, 0
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if specs+statuses != 0 {
			t.Errorf("ten resyncs of equal works sent %d specs and %d statuses", specs, statuses)
		}
	})
}
