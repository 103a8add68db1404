// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// sieve drops and counts the messages on topics with one of the endings that are set.
type sieve struct {
	lost atomic.Pointer[[]string]
	seen atomic.Int64
}

// Endings of the topics of specs and statuses.
const (
	specTopic   = "/clusters/cluster1/manifests"
	statusTopic = "/clusters/cluster1/manifestsstatus"
)

func (s *scene) sieve() *sieve {
	out := &sieve{}
	out.lose()
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		for _, ending := range *out.lost.Load() {
			if strings.HasSuffix(m.Topic, ending) {
				out.seen.Add(1)
				return
			}
		}
		deliver(m)
	})
	return out
}

func (s *sieve) lose(endings ...string) { s.lost.Store(&endings) }

// TestTombstoneExpires: a source repeats the deletion of an unknown work to an agent that lists it,
// and drops its tombstone after the TTL.
func TestTombstoneExpires(t *testing.T) {
	inScene(t, func(s *scene) {
		first := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		first.kill()

		sieve := s.sieve()
		sieve.lose(specTopic) // no deletion arrives
		second := s.source(work.SourceOptions{TombstoneTTL: time.Hour, ResyncInterval: 10 * time.Minute})
		if err := second.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		tombstones := func() int {
			n := work.StateOf(second.Source).Tombstones
			return n
		}
		time.Sleep(35 * time.Minute)
		if n := sieve.seen.Load(); n < 3 || tombstones() != 1 {
			t.Errorf("the deletion was sent %d times, %d tombstones", n, tombstones())
		}
		a.kill() // the agent stays offline
		time.Sleep(time.Hour)
		if n := tombstones(); n != 0 {
			t.Errorf("after the TTL there are %d tombstones", n)
		}
	})
}

// TestUnknownWorkIsDeletedAgainAfterTTL: a source deletes an unknown work again if an agent lists
// it after the TTL of its tombstone.
func TestUnknownWorkIsDeletedAgainAfterTTL(t *testing.T) {
	inScene(t, func(s *scene) {
		first := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		first.kill()
		sieve := s.sieve()
		sieve.lose(specTopic)
		second := s.source(work.SourceOptions{TombstoneTTL: time.Minute, ResyncInterval: 10 * time.Minute})
		if err := second.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"app"}, a.names()); diff != "" {
			t.Errorf("while deletions are lost (-want +got):\n%s", diff)
		}
		sieve.lose()
		time.Sleep(11 * time.Minute)
		if diff := cmp.Diff([]string{}, a.names()); diff != "" {
			t.Errorf("when they are not (-want +got):\n%s", diff)
		}
	})
}

// TestAgentTombstoneExpires: an agent with a tombstone reports the removal of the work again. After
// the TTL, it receives the source's deletion as a work to clean up. The deletion ends in both
// cases.
func TestAgentTombstoneExpires(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration
		want  []string
	}{
		{"within the TTL", 30 * time.Minute, []string{}},
		{"after the TTL", 2 * time.Hour, []string{"app"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{TombstoneTTL: time.Hour})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				sieve := s.sieve()
				sieve.lose(statusTopic) // the report of its removal
				h.delete("cluster1", "app")
				s.settle()
				a.setFinalizers("app")
				time.Sleep(tc.after)
				sieve.lose()
				s.reconnect()
				s.reconnect() // the agent's first list after the TTL still skipped the tombstone
				if diff := cmp.Diff(tc.want, a.names()); diff != "" {
					t.Errorf("the agent has (-want +got):\n%s", diff)
				}
				a.setFinalizers("app")
				s.settle()
				if _, err := h.works("cluster1").Get(s.t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("the hub's work: %v", err)
				}
			})
		})
	}
}

// TestFinalizersOfBothSides: the agent's finalizers delay its report that the work was removed. The
// source's finalizers then delay the removal at the source. Finalizers of users do not reach the
// other side.
func TestFinalizersOfBothSides(t *testing.T) {
	inScene(t, func(s *scene) {
		const mine = "example.com/mine"
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		obj := newWork("app", "1")
		obj.Finalizers = []string{mine}
		h.create("cluster1", obj)
		s.settle()
		if got := a.get("app").Finalizers; len(got) > 0 {
			t.Errorf("the hub's finalizers came to the agent: %v", got)
		}
		a.setFinalizers("app", workv1.ManifestWorkFinalizer, "example.com/agents")
		h.delete("cluster1", "app")
		s.settle()
		expect := func(step string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, h.get("cluster1", "app").Finalizers); diff != "" {
				t.Errorf("%s: finalizers on the hub (-want +got):\n%s", step, diff)
			}
		}
		expect("while the agent has two", mine, workv1.ManifestWorkFinalizer)
		a.setFinalizers("app", "example.com/agents")
		s.settle()
		expect("while the agent has one", mine, workv1.ManifestWorkFinalizer)
		a.setFinalizers("app")
		s.settle()
		expect("when the agent is done", mine)
		sieve := s.sieve()
		sieve.lose(specTopic)
		s.reconnect()
		if n := sieve.seen.Load(); n > 0 {
			t.Errorf("what is gone, and held on the hub only, was sent %d times more", n)
		}
		if _, err := h.works("cluster1").Create(s.t.Context(), newWork("app", "2"),
			metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("Create while the object is held: %v", err)
		}
		sieve.lose()
		held := h.get("cluster1", "app")
		held.Finalizers = nil
		if _, err := h.works("cluster1").Update(s.t.Context(), held, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.create("cluster1", newWork("app", "2"))
		s.settle()
		if got := valueOf(t, a.get("app")); got != "2" {
			t.Errorf("the next work of the name has value %q", got)
		}
	})
}
