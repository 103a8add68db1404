// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestOlderProcessKeepsWorkOfNewerProcess: an older process deletes a work while its agent is
// offline, and a newer process creates the work again. The agent lists the new work before the
// older process has detected the newer process. The older process does not delete the new work.
func TestOlderProcessKeepsWorkOfNewerProcess(t *testing.T) {
	clusters := []string{"a", "b", "c", "d", "e"} // in most of them, the agent lists the new work to both in time
	inProfiles(t, func(s *scene, profile codec.Profile) {
		options := work.SourceOptions{SourceID: "hub", Profile: profile}
		newerStarts := time.Now().Add(10 * time.Minute)
		older := s.sourceOn(filtered{s.bus.Transport(), newerStarts, loseTwo}, options)
		older.complete()
		agents := map[string]work.AgentOptions{}
		for _, name := range clusters {
			agents[name] = work.AgentOptions{ClusterName: name, Profile: profile, Store: work.NewMemoryStore()}
			a := s.agent(agents[name])
			older.create(name, newWork("again", "1"))
			s.settle()
			a.report("again", "1")
			s.settle()
			a.kill()
			older.delete(name, "again")
		}
		time.Sleep(time.Until(newerStarts))
		var created sync.Map // versions of the new works, by cluster
		s.decoding(profile, func(m codec.Message, _ cloudevents.Message) bool {
			spec, ok := m.(*codec.Spec)
			if !ok || profile != codec.ManifestWork { // the other profile counts versions per work and process
				return true
			}
			if spec.DeletionTimestamp == nil {
				created.Store(spec.Cluster, spec.Version)
			} else if v, ok := created.Load(spec.Cluster); ok && spec.Version >= v.(int64) {
				s.t.Errorf("%s: version %d is deleted with %d", spec.Cluster, v, spec.Version)
			}
			return true
		})
		newer := s.sourceOn(filtered{s.bus.Transport(), newerStarts, deliverAll}, options)
		restarted := map[string]*spoke{}
		for _, name := range clusters {
			newer.create(name, newWork("again", "2"))
			restarted[name] = s.agent(agents[name])
		}
		time.Sleep(5 * time.Minute)
		for name, a := range restarted {
			holding(s.t, "with both, "+name, a, "again")
		}
		expectProbes(s.t, "older", older, isOlder, "", isOlder)
		expectProbes(s.t, "newer", newer, isNewer, "", "")
	})
}

// TestUnknownWorkIsDeletedAfterCheck: an unknown work is deleted when the check for other processes
// has ended.
func TestUnknownWorkIsDeletedAfterCheck(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		a := s.agent(work.AgentOptions{Profile: profile})
		first := s.source(work.SourceOptions{Profile: profile})
		first.create("cluster1", newWork("old", "1"))
		s.settle()
		first.kill()
		h := s.source(work.SourceOptions{Profile: profile})
		h.complete()
		time.Sleep(15 * time.Second)
		holding(s.t, "after the check", a)
	})
}

// TestCheckEndsAfterClockIsSet: the check for other processes ends even if the clock is set during
// the check.
func TestCheckEndsAfterClockIsSet(t *testing.T) {
	for name, step := range map[string]struct{ after, by time.Duration }{
		"back":                   {5 * time.Second, -15 * time.Minute},
		"ahead, before the echo": {100 * time.Millisecond, time.Hour},
		"ahead, before the end":  {5 * time.Second, time.Hour},
		"back, before the echo":  {100 * time.Millisecond, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inProfiles(t, func(s *scene, profile codec.Profile) {
				a := s.agent(work.AgentOptions{Profile: profile})
				h := s.source(work.SourceOptions{Profile: profile})
				h.create("cluster1", newWork("old", "1"))
				s.settle()
				h.kill()
				c, began := new(steppedClock), time.Now()
				late := filtered{s.bus.Transport(), began, delayFor(time.Second)}
				h = s.sourceOn(late, work.SourceOptions{SourceID: "hub", Profile: profile, Clock: c})
				h.complete()
				time.Sleep(step.after)
				holding(s.t, "before", a, "old")
				c.set(step.by)
				time.Sleep(time.Minute)
				holding(s.t, "after", a)
			})
		})
	}
}

// TestDeletionBelowTombstone: a source that lost its records deletes a work, and its clock is
// behind. The agent has a tombstone with a higher version. The deletion still ends.
func TestDeletionBelowTombstone(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		l := &link{Transport: s.bus.Transport()}
		ahead := s.source(work.SourceOptions{Profile: profile, Clock: new(steppedClock).set(time.Hour)})
		a := s.agentOn(l, work.AgentOptions{ClusterName: "cluster1", Profile: profile})
		ahead.create("cluster1", newWork("app", "1"))
		s.settle()
		ahead.delete("cluster1", "app")
		s.settle()
		a.setFinalizers("app")
		s.settle()
		ahead.kill()
		l.setCut(true)
		h := s.source(work.SourceOptions{Profile: profile})
		h.create("cluster1", newWork("app", "2"))
		h.delete("cluster1", "app")
		s.settle()
		l.setCut(false)
		time.Sleep(2 * time.Minute)
		if list, err := h.works("cluster1").List(s.t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			s.t.Errorf("the source has %d works, %v", len(list.Items), err)
		}
		holding(s.t, "in the end", a)
	})
}

// TestOutrankedSourceDropsLists: a source that has detected a newer process drops incomplete lists
// and their charges.
func TestOutrankedSourceDropsLists(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.source(work.SourceOptions{})
		s.settle()
		send := func(m codec.Message) {
			topic, event, err := codec.ManifestWork.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			publish(s, cloudevents.Message{Topic: topic, Event: event})
			s.settle()
		}
		list := func(resyncID string, entries int) *codec.SpecResync {
			m := &codec.SpecResync{
				Header:       codec.Header{ID: "x", Source: "hub", Cluster: "cluster1", Agent: "a", ResyncID: resyncID},
				AgentSession: "s", TargetSource: "hub", Chunk: codec.Chunk{Index: 0, Count: 2},
			}
			for i := range entries {
				m.Entries = append(m.Entries, codec.SpecEntry{ResourceID: fmt.Sprint("id", i), Version: 1, UID: "u", Source: "hub"})
			}
			return m
		}
		send(list("first", 0))
		before := work.StateOf(h.Source).Bytes
		send(list("second", 100))
		if work.StateOf(h.Source).Bytes <= before {
			t.Fatal("the list is not charged")
		}
		send(&codec.Presence{Header: codec.Header{ID: "p", Source: "hub"}, Session: "newer",
			Started: time.Now().Add(time.Hour)})
		expectProbes(t, "outranked", h, isOlder, "", isOlder)
		if lists := work.StateOf(h.Source).Lists; lists != 0 {
			t.Errorf("the source has %d lists", lists)
		}
		if used := work.StateOf(h.Source).Bytes; used >= before {
			t.Errorf("without lists %d bytes are charged, with the first one %d were", used, before)
		}
	})
}

// TestRivalsWithoutPresence: two processes of one source that do not receive each other's presence
// raise a work's version at most once a minute each. After one process ends, a write of the other
// process arrives.
func TestRivalsWithoutPresence(t *testing.T) {
	inScene(t, func(s *scene) {
		var specs atomic.Int32
		s.decoding(codec.ManifestBundle, func(m codec.Message, _ cloudevents.Message) bool {
			switch m.(type) {
			case *codec.Spec:
				specs.Add(1)
			case *codec.Presence:
				return false
			}
			return true
		})
		a, one := s.agent(bundleAgent), s.source(bundleSource)
		one.create("cluster1", newWork("app", "1"))
		s.settle()
		a.report("app", "x")
		s.settle()
		two := s.source(bundleSource)
		two.create("cluster1", newWork("app", "2"))
		time.Sleep(time.Minute)
		sent := specs.Load()
		time.Sleep(time.Hour)
		if later := specs.Load() - sent; sent > 30 || later > 150 {
			t.Errorf("%d specs were sent within a minute, and %d after that", sent, later)
		}
		for i, h := range []*hub{one, two} {
			if got := h.get("cluster1", "app").Generation; got > 80_000 {
				t.Errorf("process %d has the version %d", i, got)
			}
		}
		one.kill()
		two.setValue("cluster1", "app", "3")
		time.Sleep(3 * time.Minute)
		if got := valueOf(t, a.get("app")); got != "3" {
			t.Errorf("the agent has %s", got)
		}
	})
}

// TestRestartedSourceRaisesVersions: a source without a Store may restart any number of times, and
// an agent may have shown any version. The works of the source still arrive and their statuses
// return.
func TestRestartedSourceRaisesVersions(t *testing.T) {
	inScene(t, func(s *scene) {
		a := s.agent(bundleAgent)
		for i := range 60 {
			h := s.source(bundleSource)
			h.create("cluster1", newWork("app", fmt.Sprint(i)))
			s.settle()
			a.report("app", fmt.Sprint(i))
			time.Sleep(10 * time.Second)
			if got := valueOf(t, a.get("app")); got != fmt.Sprint(i) {
				t.Errorf("restart %d: the agent has %s", i, got)
			}
			obj := h.get("cluster1", "app")
			if got := applied(obj); got != fmt.Sprint(i) {
				t.Errorf("restart %d: the source shows %q", i, got)
			}
			if obj.Generation > math.MaxInt32/4 {
				t.Errorf("restart %d: the version is %d", i, obj.Generation)
			}
			h.kill()
		}
	})
}

// TestDeletionOfUnknownWorksIsLogged: a source that deletes unknown works logs this, at most one
// line a minute for each cluster. The works may belong to another source with the same ID.
func TestDeletionOfUnknownWorksIsLogged(t *testing.T) {
	inScene(t, func(s *scene) {
		first := s.source(work.SourceOptions{})
		a := s.agent(work.AgentOptions{})
		s.settle()
		for _, name := range []string{"one", "two", "three"} {
			first.create("cluster1", newWork(name, "1"))
		}
		s.settle()
		for _, name := range a.names() {
			a.setFinalizers(name, "work.open-cluster-management.io/cleanup")
		}
		second, err := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "hub"})
		if err != nil {
			t.Fatal(err)
		}
		_, logs := s.runLogged(second)
		if err := second.InventoryComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		first.kill()
		s.settleProcesses()
		const want = "Requested the deletion of an unknown work"
		if text := logs(); strings.Count(text, want) != 1 || !strings.Contains(text, "another source has the same ID") ||
			!strings.Contains(text, `INFO `+want) {
			t.Errorf("logged:\n%s", text)
		}
	})
}
