// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestDeletingProcessMeetsNewer: an older process deletes a work while its agent is offline, and a
// newer process creates the work again. The agent lists the new work before the older process has
// detected the newer process. The older process does not delete the new work.
func TestDeletingProcessMeetsNewer(t *testing.T) {
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

// TestUnknownWorkGoesAfterCheck: an unknown work is deleted when the check for other processes has
// ended.
func TestUnknownWorkGoesAfterCheck(t *testing.T) {
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

// TestClockIsSetInCheck: the check for other processes ends even if the clock is set during the
// check.
func TestClockIsSetInCheck(t *testing.T) {
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
