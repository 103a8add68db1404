// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// otherClient is a client that publishes the messages of a test.
type otherClient struct {
	t       *testing.T
	conn    cloudevents.Conn
	profile codec.Profile
}

func (s *scene) otherClient() *otherClient {
	s.t.Helper()
	conn, err := s.bus.Transport().Connect(s.t.Context(), cloudevents.ConnectOptions{
		Filters: []string{"/nothing"}, Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &otherClient{s.t, conn, codec.ManifestWork}
}

func (s *otherClient) send(m codec.Message) {
	s.t.Helper()
	topic, event, err := s.profile.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	if err := s.conn.Publish(s.t.Context(), cloudevents.Message{Topic: topic, Event: event},
		func(err error) { done <- err }); err != nil {
		s.t.Fatal(err)
	}
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

// list publishes a list of works in the name of a process of the agent of cluster1.
func (s *otherClient) list(session, id string, entries ...codec.SpecEntry) {
	s.t.Helper()
	resyncID := id
	if s.profile.Traits().Bundle {
		session, resyncID = "", ""
	}
	s.send(&codec.SpecResync{
		Header: codec.Header{
			ID: id, Time: time.Now(), Cluster: "cluster1", Agent: "cluster1-work-agent", ResyncID: resyncID,
		},
		Broadcast: true, AgentSession: session, Entries: entries,
	})
}

// all returns the current works of a source as entries of a list.
func (h *hub) all() []codec.SpecEntry {
	var entries []codec.SpecEntry
	for id, r := range work.SourceRecords(h.Source) {
		entries = append(entries, codec.SpecEntry{ResourceID: id, Version: r.Version, UID: types.UID(r.UID), Source: "hub"})
	}
	return entries
}

// TestRepeatedListsAreAnsweredWithinWindow: an agent may request all of its many works again and
// again without confirming any. It receives only a window of works, and other clusters do not wait.
func TestRepeatedListsAreAnsweredWithinWindow(t *testing.T) {
	inScene(t, func(s *scene) {
		const works = 2000
		h := s.source(work.SourceOptions{QPS: 200, Burst: 1, DrainTimeout: -1})
		for i := range works {
			h.create("cluster1", newWork(fmt.Sprint("app", i), "1"))
		}
		h.create("cluster2", newWork("app", "1"))
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		specs := s.wiretap("/clusters/cluster1/manifests", func(cloudevents.Message) bool { return true })
		for i, caller := 0, s.otherClient(); i < 100; i++ {
			caller.list(fmt.Sprint("session", i), fmt.Sprint("list", i))
		}
		s.settle()
		a := s.agent(work.AgentOptions{ClusterName: "cluster2", Sources: []string{"hub"}, InitialSyncTimeout: time.Hour})
		began := time.Now()
		a.get("app")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("another cluster's first list took %v", took)
		}
		time.Sleep(time.Minute)
		if n := specs(); n < 1 || n > 512 { // some are sent again
			t.Errorf("%d specs were sent, want no more than 512", n)
		}
	})
}

// TestContinuousListsAreComparedRarely: a source compares few of the lists that an agent sends
// without pause. After these lists stop, it requests another list.
func TestContinuousListsAreComparedRarely(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		const seconds, perSecond = 5, 50
		h := s.source(work.SourceOptions{Profile: profile})
		h.create("cluster1", newWork("app", "1"))
		h.complete()
		a := s.agent(work.AgentOptions{Profile: profile})
		s.settle()
		a.report("app", "1")
		time.Sleep(time.Minute)
		var specs, requests atomic.Int32
		s.decoding(profile, func(m codec.Message, _ cloudevents.Message) bool {
			switch m := m.(type) {
			case *codec.Spec:
				specs.Add(1)
			case *codec.StatusResync:
				if m.Scope == codec.ScopeLists || len(m.Entries) > 0 {
					requests.Add(1)
				}
			}
			return true
		})
		caller := s.otherClient()
		caller.profile = profile
		for i := range seconds * perSecond {
			caller.list("session", fmt.Sprint("list", i))
			time.Sleep(time.Second / perSecond)
		}
		if n, most := int(specs.Load()), work.ComparesAtOnce+seconds; n < seconds || n > most {
			s.t.Errorf("%d of %d lists were answered, want %d to %d", n, seconds*perSecond, seconds, most)
		}
		s.settle()
		requests.Store(0)
		time.Sleep(30 * time.Second)
		if requests.Load() == 0 {
			s.t.Error("no other list was asked for")
		}
	})
}

// TestListAfterClockIsSetBack: if the clock of a source is set back after many lists, the source
// still answers the next list.
func TestListAfterClockIsSetBack(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		c := new(steppedClock)
		h := s.source(work.SourceOptions{Profile: profile, Clock: c})
		h.create("cluster1", newWork("app", "1"))
		h.complete()
		a := s.agent(work.AgentOptions{Profile: profile})
		s.settle()
		a.report("app", "1")
		time.Sleep(time.Minute)
		caller := s.otherClient()
		caller.profile = profile
		for i := range 2 * work.ComparesAtOnce {
			caller.list("session", fmt.Sprint("list", i))
		}
		c.set(-time.Hour)
		time.Sleep(10 * time.Second)
		var specs atomic.Int32
		s.decoding(profile, func(m codec.Message, _ cloudevents.Message) bool {
			if _, ok := m.(*codec.Spec); ok {
				specs.Add(1)
			}
			return true
		})
		caller.list("session", "the next")
		s.settle()
		if specs.Load() == 0 {
			s.t.Error("the list was not answered")
		}
	})
}

// TestAnswerIsSuperseded: a new list of an agent process ends the answer to its previous list. A
// list of another process of the agent is answered in full.
func TestAnswerIsSuperseded(t *testing.T) {
	const works = 100
	for _, tt := range []struct {
		name, session string
		least, most   int
	}{
		{"by the same process", "one", 35, 55}, // works that were created a minute ago are sent again
		{"by another process", "two", works, 2 * works},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{QPS: 10, Burst: 1, DrainTimeout: -1})
				for i := range works {
					h.create("cluster1", newWork(fmt.Sprint("app", i), "1"))
				}
				time.Sleep(time.Minute)
				specs := s.wiretap("/clusters/cluster1/manifests", func(cloudevents.Message) bool { return true })
				caller := s.otherClient()
				caller.list("one", "list1")
				time.Sleep(5 * time.Second)
				caller.list(tt.session, "list2", h.all()...)
				time.Sleep(time.Minute)
				if n := specs(); n < tt.least || n > tt.most {
					t.Errorf("%d specs were sent, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}

// TestUnfinishedAnswerDoesNotDelayNext: an unfinished answer from a connection that ended does not
// delay a later answer.
func TestUnfinishedAnswerDoesNotDelayNext(t *testing.T) {
	inScene(t, func(s *scene) {
		const works = 50
		h := s.source(work.SourceOptions{QPS: 10, Burst: 1, DrainTimeout: -1})
		for i := range works {
			h.create("cluster1", newWork(fmt.Sprint("app", i), "1"))
		}
		if err := h.InventoryComplete(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.otherClient().list("one", "list1")
		time.Sleep(time.Second)
		for range 3 {
			s.reconnect()
		}
		a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Hour})
		if n := len(a.names()); n != works {
			t.Errorf("the agent's first list has %d works, want %d", n, works)
		}
	})
}

// TestRepeatedHashListsAreBounded: an agent that sends no resync ID, and begins again and again,
// receives only a few lists of the hashes of its works.
func TestRepeatedHashListsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		profile codec.Profile
		topic   string
	}{{codec.ManifestBundle, "/cluster1/sourceevents"}, {codec.ManifestWork, "/resync/clusters/manifestsstatus"}} {
		t.Run(tt.profile.Name(), func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{Profile: tt.profile, QPS: 1, Burst: 1, DrainTimeout: -1})
				h.create("cluster1", newWork("app", "1"))
				time.Sleep(time.Minute)
				lists := s.wiretap(tt.topic, func(m cloudevents.Message) bool { return codec.IsResync(m.Event) })
				caller := s.otherClient()
				caller.profile = tt.profile
				for range 100 {
					caller.send(&codec.SpecResync{
						Header:    codec.Header{ID: "list", Time: time.Now(), Cluster: "cluster1", Agent: "cluster1-work-agent"},
						Broadcast: true,
					})
				}
				time.Sleep(5 * time.Minute)
				if n := lists(); n < 1 || n > 8 { // includes those that ask for a confirmation
					t.Errorf("%d lists of hashes were sent, want 1 to 8", n)
				}
			})
		})
	}
}

// TestRepeatedStatusRequestsAreAnsweredOnce: a source that requests all statuses again and again
// receives each status about once.
func TestRepeatedStatusRequestsAreAnsweredOnce(t *testing.T) {
	inScene(t, func(s *scene) {
		const works = 200
		h := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{QPS: 10, Burst: 1, DrainTimeout: -1})
		for i := range works {
			h.create("cluster1", newWork(fmt.Sprint("app", i), "1"))
		}
		s.settle()
		for i := range works {
			a.report(fmt.Sprint("app", i), "one")
		}
		time.Sleep(time.Minute)
		statuses := s.wiretap("/clusters/cluster1/manifestsstatus", func(cloudevents.Message) bool { return true })
		for i, caller := 0, s.otherClient(); i < 100; i++ {
			caller.send(&codec.StatusResync{
				Header:    codec.Header{ID: fmt.Sprint(i), Time: time.Now(), Source: "hub", ResyncID: fmt.Sprint("resync", i)},
				Broadcast: true,
			})
		}
		time.Sleep(time.Hour)
		if n := statuses(); n < works || n > works+10 {
			t.Errorf("%d statuses were sent, want little more than %d", n, works)
		}
	})
}
