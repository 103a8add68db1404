// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package trouble_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// TestTrouble10AgentRestartsWithStore: the agent shows its works before it receives any message,
// and after that it reports only changes.
func TestTrouble10AgentRestartsWithStore(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	works := newFile(t)
	options := func() work.AgentOptions {
		return work.AgentOptions{Store: works.store(), InitialSyncTimeout: time.Hour}
	}
	h := s.source(work.SourceOptions{})
	h.inventoryComplete()
	a := s.newAgent(work.AgentOptions{Store: works.store(), Sources: []string{"hub"}}) // synced before it is stopped
	a.start(a.Agent)
	a.apply()
	for _, name := range []string{"changed", "deleted", "equal"} {
		h.create("cluster1", name, "1")
	}
	shows(t, "the source before", h.works("cluster1"), "changed=1/1 deleted=1/1 equal=1/1")
	a.crash()
	h.set("cluster1", "changed", "2")
	h.delete("cluster1", "deleted")
	s.broker.Kill()

	a = s.newAgent(options())
	spy := spyOn(t, a.works())
	a.start(a.Agent)
	if got := state(t, a.works()); got != "changed=1/1 deleted=1/1 equal=1/1" {
		t.Errorf("without a broker the agent shows %q", got)
	}
	s.broker.Restart()
	shows(t, "the agent", a.works(), "-deleted=1/1 changed=2/1 equal=1/1")
	a.apply()
	shows(t, "the source", h.works("cluster1"), "changed=2/2 equal=1/1")
	if got := spy.now().of("equal"); len(got) != 1 || got[0].finalizers != 1 {
		t.Errorf("what nobody touched was touched: %v", got)
	}
	if diff := cmp.Diff([]string{"1", "2"}, spy.values("changed")); diff != "" {
		t.Errorf("values of the changed work (-want +got):\n%s", diff)
	}
}

// TestTrouble10AgentRestartsWithoutStore: the source sends the works again, and keeps their
// statuses meanwhile. A deleted work arrives with a finalizer, so it can be cleaned up.
func TestTrouble10AgentRestartsWithoutStore(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	h := s.source(work.SourceOptions{})
	h.inventoryComplete()
	a := s.agent(work.AgentOptions{Sources: []string{"hub"}})
	a.apply()
	for _, name := range []string{"deleted", "equal"} {
		h.create("cluster1", name, "1")
	}
	shows(t, "the source before", h.works("cluster1"), "deleted=1/1 equal=1/1")
	a.crash()
	h.delete("cluster1", "deleted")
	atSource := spyOn(t, h.works("cluster1"))

	a = s.agent(work.AgentOptions{Sources: []string{"hub"}})
	spy := spyOn(t, a.works())
	shows(t, "the agent", a.works(), "-deleted=/ equal=1/")
	eventually(t, "the deleted work, with a finalizer", func() string {
		got := spy.of("deleted")
		return unless(len(got) == 1 && got[0].finalizers == 1, fmt.Sprint(got))
	})
	h.create("cluster1", "marker", "1")
	a.apply()
	shows(t, "the source after", h.works("cluster1"), "equal=1/1 marker=1/1")
	if got := atSource.now().statuses("equal"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("statuses at the source: %v", got)
	}
	eventually(t, "the end of the deleted work", func() string {
		got := spy.of("deleted")
		last := got[len(got)-1]
		return unless(last.kind == watch.Deleted && last.finalizers == 0, fmt.Sprint(got))
	})
}

// listAndWatch returns the options of a current client-go informer.
func listAndWatch() metav1.ListOptions {
	return metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// initial returns the events before the end of the initial events, and whether that end has
// arrived.
func (s *spy) initial() (names []string, ended bool) {
	for _, e := range s.of("") {
		if e.initialEventsEnd {
			return names, true
		}
		names = append(names, e.name)
	}
	return names, false
}

// TestTrouble10InformersWaitForTheirSources: the initial events end only after each named source
// has sent its complete list.
func TestTrouble10InformersWaitForTheirSources(t *testing.T) {
	t.Parallel()
	s := newScene(t, mosquitto.Options{})
	one, two := s.source(work.SourceOptions{SourceID: "one"}), s.source(work.SourceOptions{SourceID: "two"})
	var want []string
	for _, h := range []*hub{one, two} {
		for i := range 20 {
			name := fmt.Sprintf("%s-%02d", h.id, i)
			h.create("cluster1", name, "1")
			want = append(want, name)
		}
		h.inventoryComplete()
	}
	two.leave()
	wire := newTap(s, nil)
	a := s.agent(work.AgentOptions{Sources: []string{"one", "two"}, InitialSyncTimeout: time.Hour})
	spy := spyOn(t, a.works(), listAndWatch())
	marker := wire.hears("the end of the first source's answer", func(m heard) bool {
		l := m.hashes()
		return l != nil && l.Header.Source == "one" && l.Scope == codec.ScopeListed && len(l.Entries) == 0
	})
	if got := marker.hashes().Chunk.Count; got != 20 {
		t.Errorf("the answer is said to have %d events", got)
	}
	eventually(t, "the works of the first source", func() string {
		return unless(len(spy.of("one-")) == 20, "not all there")
	})
	if _, ended := spy.initial(); ended {
		t.Error("the initial events ended before the second source was heard")
	}
	two.comeBack()
	var got []string
	eventually(t, "the end of the initial events", func() string {
		names, ended := spy.initial()
		got = names
		return unless(ended, fmt.Sprintf("%d works", len(names)))
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("initial works (-want +got):\n%s", diff)
	}
}

// TestTrouble10InformersWaitForAnybody: an agent that serves every source cannot determine when all
// have answered, and waits for the whole timeout.
func TestTrouble10InformersWaitForAnybody(t *testing.T) {
	t.Parallel()
	const timeout = 1500 * time.Millisecond
	s := newScene(t, mosquitto.Options{})
	h := s.source(work.SourceOptions{})
	h.create("cluster1", "app", "1")
	h.inventoryComplete()
	wire := newTap(s, nil)
	a := s.newAgent(work.AgentOptions{InitialSyncTimeout: timeout})
	spy := spyOn(t, a.works(), listAndWatch())
	a.start(a.Agent)
	began := time.Now()
	wire.hears("the end of the answer", func(m heard) bool {
		return m.hashes() != nil && m.hashes().Scope == codec.ScopeListed
	})
	eventually(t, "the end of the initial events", func() string {
		names, ended := spy.initial()
		return unless(ended && slices.Equal(names, []string{"app"}), fmt.Sprint(names))
	})
	if waited := time.Since(began); waited < timeout {
		t.Errorf("the initial events ended after %v, want not before %v", waited, timeout)
	}
}
