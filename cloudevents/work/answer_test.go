// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// wiretap returns a function that counts the messages on topics with an ending, if the function
// counts accepts them.
func (s *scene) wiretap(ending string, counts func(cloudevents.Message) bool) func() int {
	var mu sync.Mutex
	n := 0
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if strings.HasSuffix(m.Topic, ending) && counts(m) {
			mu.Lock()
			n++
			mu.Unlock()
		}
		deliver(m)
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// TestAnswerWaitsForStore: a work that is being stored is part of the answer that an agent's first
// list waits for. It is not published before it is durable.
func TestAnswerWaitsForStore(t *testing.T) {
	// Each script begins during a change of "app", which had the value 1. The answer to an agent
	// waits for that change.
	tests := []struct {
		name   string
		change func(h *hub)
		script func(s *scene, h *hub, release func())
		want   map[string]string // works in the agent's first list
	}{{
		name:   "it is stored",
		change: func(h *hub) { h.setValue("cluster1", "app", "2") },
		script: func(*scene, *hub, func()) {},
		want:   map[string]string{"app": "2 ", "other": "1 "},
	}, {
		name:   "it is changed again meanwhile",
		change: func(h *hub) { h.setValue("cluster1", "app", "2") },
		script: func(_ *scene, h *hub, _ func()) {
			go func() { h.setValue("cluster1", "app", "3") }()
			synctest.Wait()
		},
		want: map[string]string{"app": "3 ", "other": "1 "},
	}, {
		name:   "it is removed meanwhile",
		change: func(h *hub) { h.delete("cluster1", "app") },
		script: func(s *scene, h *hub, _ func()) {
			go func() {
				if err := h.Forget(s.t.Context(), "cluster1"); err != nil {
					s.t.Error(err)
				}
			}()
			synctest.Wait()
		},
		want: map[string]string{"other": "1 "},
	}, {
		name:   "it gives way to another of its name",
		change: func(h *hub) { h.delete("cluster1", "app") },
		script: func(s *scene, h *hub, _ func()) {
			go func() {
				if err := h.Forget(s.t.Context(), "cluster1"); err != nil {
					s.t.Error(err)
				}
			}()
			synctest.Wait()
			go func() { h.create("cluster1", newWork("app", "4")) }()
			synctest.Wait()
		},
		want: map[string]string{"app": "4 ", "other": "1 "},
	}, {
		name:   "the connection ends meanwhile",
		change: func(h *hub) { h.setValue("cluster1", "app", "2") },
		script: func(s *scene, _ *hub, _ func()) { s.reconnect() },
		want:   map[string]string{"app": "2 ", "other": "1 "},
	}, {
		name:   "it is stored while there is no connection",
		change: func(h *hub) { h.setValue("cluster1", "app", "2") },
		script: func(s *scene, _ *hub, release func()) {
			s.bus.Disconnect()
			s.settle()
			release()
			s.settle()
			s.bus.Reconnect()
		},
		want: map[string]string{"app": "2 ", "other": "1 "},
	}}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				store := newFaultyStore()
				h := s.source(work.SourceOptions{Store: store})
				h.create("cluster1", newWork("app", "1"))
				h.create("cluster1", newWork("other", "1"))
				h.complete()
				s.settle()
				early := s.wiretap("/clusters/cluster1/manifests", func(m cloudevents.Message) bool {
					return !strings.Contains(string(m.Event.DataEncoded), `"other"`)
				})
				release := sync.OnceFunc(store.stall())
				defer release()
				go tc.change(h)
				synctest.Wait()

				a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Hour})
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				s.settle()
				if n := early(); n != 0 || informer.HasSynced() {
					s.t.Fatalf("before the work is stored, %d events of it are out, the agent's informer is synced: %t", n,
						informer.HasSynced())
				}
				tc.script(s, h, release)
				release()
				s.settle()
				if !informer.HasSynced() {
					s.t.Fatal("the answer has not ended")
				}
				if got := held(s.t, a.works().List); !maps.Equal(got, tc.want) {
					t.Errorf("the agent's list has %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestReplacedLeaderMarksNoEnd: a replica that another replica has replaced does not mark the end
// of an answer that it has sent only in part.
func TestReplacedLeaderMarksNoEnd(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyShared()
		first, second := s.replicaOf(store), s.replicaOf(store.MemoryStore)
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		first.complete()
		s.settle()
		release := store.stall()
		go func() { // fails: the second replica continues from the store
			obj := first.get("cluster1", "app")
			obj.Spec = newWork("app", "2").Spec
			_, _ = first.works("cluster1").Update(s.t.Context(), obj, metav1.UpdateOptions{})
		}()
		synctest.Wait()
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Hour})
		listed := make(chan map[string]string, 1)
		go func() { listed <- held(s.t, a.works().List) }()
		s.settle()
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		release()
		s.settle()
		if got := <-listed; !maps.Equal(got, map[string]string{"app": "1 "}) {
			t.Errorf("the agent's first list has %v", got)
		}
	})
}

// TestStatusAnswerWaitsForStore: a status that a source requests while it is being stored is not
// published before it is durable.
func TestStatusAnswerWaitsForStore(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyStore()
		l := &link{Transport: s.bus.Transport()}
		h := s.sourceOn(l, work.SourceOptions{SourceID: "hub"})
		a := s.agent(work.AgentOptions{Store: store})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		early := s.wiretap("/clusters/cluster1/manifestsstatus", func(cloudevents.Message) bool { return true })
		release := store.stall()
		go a.report("app", "done")
		synctest.Wait()
		l.setCut(true)
		s.settle()
		l.setCut(false)
		s.settle()
		if n := early(); n != 0 {
			t.Errorf("%d statuses are out before they are stored", n)
		}
		release()
		s.settle()
		if got := applied(h.get("cluster1", "app")); got != "done" {
			t.Errorf("the source shows %q", got)
		}
	})
}
