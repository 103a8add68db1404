// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// recorder records the messages on topics with an ending.
type recorder struct {
	mu   sync.Mutex
	kept []cloudevents.Message
}

func (s *scene) record(ending string) *recorder {
	r := &recorder{}
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if strings.HasSuffix(m.Topic, ending) {
			r.mu.Lock()
			r.kept = append(r.kept, m)
			r.mu.Unlock()
		}
		deliver(m)
	})
	return r
}

func (r *recorder) last() cloudevents.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[len(r.kept)-1]
}

// TestLateGoneDoesNotEndNewDeletion: a late report that a work was removed does not end the
// deletion of the next work of that name.
func TestLateGoneDoesNotEndNewDeletion(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		recorder := s.record(statusTopic)
		h.delete("cluster1", "app")
		s.settle()
		a.setFinalizers("app")
		s.settle()
		gone := recorder.last()
		h.create("cluster1", newWork("app", "2"))
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		h.delete("cluster1", "app")
		s.settle()
		publish(s, gone)
		later, err := codec.ManifestWork.Decode(gone.Topic, gone.Event)
		if err != nil {
			t.Fatal(err)
		}
		later.(*codec.Status).Version = soon() // above the deletion, as from a source that was rolled back since
		topic, event, err := codec.ManifestWork.Encode(later)
		if err != nil {
			t.Fatal(err)
		}
		publish(s, cloudevents.Message{Topic: topic, Event: event})
		s.settle()
		if _, err := h.works("cluster1").Get(s.t.Context(), "app", metav1.GetOptions{}); err != nil {
			t.Errorf("the agent still cleans up, and the hub's work: %v", err)
		}
	})
}

// TestLateSpecOfDeletedWork: a late spec from a source process with a clock that was ahead does not
// recreate a deleted work. This holds after the deletion and during the clean-up.
func TestLateSpecOfDeletedWork(t *testing.T) {
	t.Run("deleted", func(t *testing.T) { lateSpec(t, false) })
	t.Run("being deleted", func(t *testing.T) { lateSpec(t, true) })
}

func lateSpec(t *testing.T, early bool) {
	inScene(t, func(s *scene) {
		a := s.agent(work.AgentOptions{})
		s.settle()
		first := s.source(work.SourceOptions{})
		s.settle()
		recorder := s.record(specTopic)
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		late, err := codec.ManifestWork.Decode(recorder.last().Topic, recorder.last().Event)
		if err != nil {
			t.Fatal(err)
		}
		spec := late.(*codec.Spec)
		spec.Version, spec.AgentSession = soon(), "that of an earlier process"
		first.kill()
		second := s.source(work.SourceOptions{})
		second.create("cluster1", newWork("app", "2"))
		s.settle()
		a.setFinalizers("app", workv1.ManifestWorkFinalizer)
		second.delete("cluster1", "app")
		s.settle()
		if early {
			s.sends(codec.ManifestWork, spec)
			s.settle()
			s.bus.Disconnect() // the source would delete the work again
		}
		a.setFinalizers("app")
		s.settle()
		if !early {
			s.sends(codec.ManifestWork, spec)
			s.settle()
		}
		if names := a.names(); len(names) > 0 {
			t.Errorf("the late spec has revived %v", names)
		}
	})
}

// recreatedDuringCleanUp returns an agent that cleans up a work. The agent has also received a new
// work of the same name from the next process of the source.
func (s *scene) recreatedDuringCleanUp() *spoke {
	s.t.Helper()
	a, first := s.agent(work.AgentOptions{}), s.source(work.SourceOptions{})
	s.settle()
	first.create("cluster1", newWork("app", "1"))
	s.settle()
	a.setFinalizers("app", workv1.ManifestWorkFinalizer)
	first.delete("cluster1", "app")
	s.settle()
	first.kill()
	s.source(work.SourceOptions{}).create("cluster1", newWork("app", "2"))
	s.settle()
	return a
}

// TestNewWorkIsCreatedAfterCleanup: an agent may receive a new work while it cleans up the deleted
// work of the same name. It creates the new work after the clean-up, without the source.
func TestNewWorkIsCreatedAfterCleanup(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.recreatedDuringCleanUp()
		s.bus.Disconnect()
		a.setFinalizers("app")
		s.settle()
		if names := a.names(); !slices.Equal(names, []string{"app"}) {
			t.Errorf("works after the clean-up: %v, want app", names)
		}
	})
}

// TestListDuringCleanup: an agent cleans up a deleted work while a new work of the same name waits.
// Its list shows the version of the new work, so the source does not send the new work again.
func TestListDuringCleanup(t *testing.T) {
	inScene(t, func(s *scene) {
		s.recreatedDuringCleanUp()
		specs := 0
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if decoded, err := codec.ManifestWork.Decode(m.Topic, m.Event); err == nil {
				if _, ok := decoded.(*codec.Spec); ok {
					specs++
				}
			}
			deliver(m)
		})
		s.reconnect()
		s.bus.Intercept(nil)
		if specs > 0 {
			t.Errorf("the source sent %d specs that the agent has", specs)
		}
	})
}

// TestDeletionBeforeLateAnswer: the deletion of a work that the agent does not have arrives before
// an older answer with that work. The agent requests the work again and does not keep it.
func TestDeletionBeforeLateAnswer(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		var held []cloudevents.Message
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if len(held) == 0 && strings.HasSuffix(m.Topic, specTopic) && m.Event.Extensions()["resyncid"] != nil {
				held = append(held, m)
				return
			}
			deliver(m)
		})
		a := s.agent(work.AgentOptions{InitialSyncTimeout: -1})
		synctest.Wait()
		h.delete("cluster1", "app")
		synctest.Wait()
		publish(s, held[0])
		s.settle()
		a.setFinalizers("app")
		s.settle()
		if names := a.names(); len(names) > 0 {
			t.Errorf("the agent keeps %v", names)
		}
		if _, err := h.works("cluster1").Get(s.t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the hub's work: %v", err)
		}
	})
}

// TestLateDeletionKeepsNewWork: a deletion from before the start of this agent process arrives
// before the source's answer. It does not delete the present work of that name.
func TestLateDeletionKeepsNewWork(t *testing.T) {
	inScene(t, func(s *scene) {
		h, a := s.source(work.SourceOptions{}), s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		a.setFinalizers("app")
		recorder := s.record(specTopic)
		h.delete("cluster1", "app")
		s.settle()
		a.setFinalizers("app")
		late := recorder.last()
		s.settle()
		h.create("cluster1", newWork("app", "2"))
		s.settle()
		a.kill()
		s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			if strings.HasSuffix(m.Topic, specTopic) && m.Event.Extensions()["resyncid"] != nil {
				time.Sleep(time.Second)
			}
			deliver(m)
		})
		a = s.agent(work.AgentOptions{})
		time.Sleep(500 * time.Millisecond)
		publish(s, late)
		s.settle()
		s.settle()
		got := a.get("app")
		if got.DeletionTimestamp != nil {
			t.Fatalf("deleted %v", got.DeletionTimestamp)
		}
		if value := valueOf(s.t, got); value != "2" {
			t.Errorf("the agent has value %q", value)
		}
	})
}

// TestSpecFromBeforeStartIsNotApplied: an agent does not apply a spec from before its start. It
// asks the source first.
func TestSpecFromBeforeStartIsNotApplied(t *testing.T) {
	inScene(t, func(s *scene) { lateEvent(s, func(*hub) {}) })
}

// lateEvent deletes a work, and then sends the event of its creation again to a restarted agent.
func lateEvent(s *scene, begin func(*hub)) {
	s.t.Helper()
	h := s.source(work.SourceOptions{})
	first := s.agent(work.AgentOptions{})
	begin(h)
	s.settle()
	var late []cloudevents.Message
	s.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if strings.HasSuffix(m.Topic, "/clusters/cluster1/manifests") {
			late = append(late, m)
		}
		deliver(m)
	})
	h.create("cluster1", newWork("app", "1"))
	s.settle()
	h.delete("cluster1", "app")
	s.settle()
	first.kill()
	s.bus.Intercept(nil)
	second := s.agent(work.AgentOptions{})
	s.settle()
	publish(s, late[0])
	s.settle()
	if got := second.names(); len(got) != 0 {
		s.t.Errorf("a late event brought back %v", got)
	}
}

// publish sends a message as some client of the broker.
func publish(s *scene, m cloudevents.Message) {
	s.t.Helper()
	conn, err := s.bus.Transport().Connect(s.t.Context(), cloudevents.ConnectOptions{
		Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	acknowledged := make(chan error, 1)
	if err := conn.Publish(s.t.Context(), m, func(err error) { acknowledged <- err }); err != nil {
		s.t.Fatal(err)
	}
	if err := <-acknowledged; err != nil {
		s.t.Error(err)
	}
	if err := conn.Close(); err != nil {
		s.t.Error(err)
	}
}
