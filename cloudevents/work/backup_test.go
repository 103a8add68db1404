// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestRestoredBackup: a source whose store is older than what agents hold deletes nothing that it does not know before
// it is told that its inventory is complete, also after another restart.
func TestRestoredBackup(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		store := work.NewMemoryStore()
		l := &link{Transport: s.bus.Transport()}
		h := s.source(work.SourceOptions{Profile: profile, Store: store})
		a := s.agentOn(l, work.AgentOptions{ClusterName: "cluster1", Profile: profile})
		h.complete()
		h.create("cluster1", newWork("before", "1"))
		s.settle()
		backup := s.copyOf(store)
		h.create("cluster1", newWork("after", "1"))
		s.settle()
		h.kill()

		h = s.source(work.SourceOptions{Profile: profile, Store: backup})
		h.setValue("cluster1", "before", "2") // before any agent has shown what it holds
		h.create("cluster1", newWork("new", "1"))
		s.settle()
		l.setCut(true)
		l.setCut(false) // in the bundle profile a source with a store hears of unknown works when their agent connects
		time.Sleep(time.Minute)
		const old = "the store is older than what 1 clusters hold (cluster1 is the first)"
		expectProbes(s.t, "restored", h, old, "", "")
		holding(s.t, "restored", a, "after", "before", "new")
		h.kill()
		h = s.source(work.SourceOptions{Profile: profile, Store: backup})
		time.Sleep(time.Minute)
		expectProbes(s.t, "restarted", h, old, "", "")
		holding(s.t, "restarted", a, "after", "before", "new")

		h.complete()
		s.settleProcesses()
		expectProbes(s.t, "told so", h, "", "", "")
		holding(s.t, "after InventoryComplete", a, "before", "new")
		h.kill()
		h = s.source(work.SourceOptions{Profile: profile, Store: backup})
		s.settle()
		expectProbes(s.t, "restarted, told so", h, "", "", "")
	})
}

// TestRestoredBackupDeclaredAtStart: a program that declares its inventory complete at each start deletes nothing that a restored
// Store lacks. A call after the source has detected the backup counts.
func TestRestoredBackupDeclaredAtStart(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		store := work.NewMemoryStore()
		h := s.source(work.SourceOptions{Profile: profile, Store: store})
		l := &link{Transport: s.bus.Transport()}
		a := s.agentOn(l, work.AgentOptions{ClusterName: "cluster1", Profile: profile})
		h.complete()
		h.create("cluster1", newWork("before", "1"))
		s.settle()
		backup := s.copyOf(store)
		h.create("cluster1", newWork("after", "1"))
		s.settle()
		h.kill()

		l.setCut(true)
		h = s.source(work.SourceOptions{Profile: profile, Store: backup})
		h.complete() // before the agent has shown that the store is old
		l.setCut(false)
		time.Sleep(15 * time.Minute) // until a source of each profile has compared all
		expectProbes(s.t, "declared at the start", h, "the store is older than what 1 clusters hold", "", "")
		holding(s.t, "declared at the start", a, "after", "before")
		h.complete()
		time.Sleep(time.Minute)
		expectProbes(s.t, "declared again", h, "", "", "")
		holding(s.t, "declared again", a, "before")
	})
}

// TestRestoredBackupOfAwayCluster: a cluster that was away while the restored source wrote and restarted is protected.
func TestRestoredBackupOfAwayCluster(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		l := &link{Transport: s.bus.Transport()}
		h, a := s.source(work.SourceOptions{Store: store}), s.agentOn(l, work.AgentOptions{ClusterName: "cluster1"})
		h.complete()
		h.create("cluster1", newWork("before", "1"))
		s.settle()
		backup := s.copyOf(store)
		h.create("cluster1", newWork("after", "1"))
		s.settle()
		l.setCut(true)
		h.kill()
		for range 2 {
			h = s.source(work.SourceOptions{Store: backup})
			s.settle()
			h.setValue("cluster1", "before", fmt.Sprint(time.Now().Unix()))
			s.settle()
			h.kill()
		}
		h = s.source(work.SourceOptions{Store: backup})
		l.setCut(false)
		time.Sleep(20 * time.Second)
		expectProbes(t, "the cluster is back", h, "the store is older", "", "")
		holding(t, "the cluster is back", a, "after", "before")
	})
}

// TestRestartIsNoRestoredBackup: restarts with the store as it was, writes, forgotten clusters and clusters that were away
// raise no doubt.
func TestRestartIsNoRestoredBackup(t *testing.T) {
	inProfiles(t, func(s *scene, profile codec.Profile) {
		store := work.NewMemoryStore()
		options := work.SourceOptions{Profile: profile, Store: store}
		l := &link{Transport: s.bus.Transport()}
		h, a := s.source(options), s.agentOn(l, work.AgentOptions{ClusterName: "cluster1", Profile: profile})
		h.complete()
		for i := range 5 {
			h.create("cluster1", newWork("app", "1"))
			s.settle()
			a.report("app", fmt.Sprint(i))
			a.setFinalizers("app", workv1.ManifestWorkFinalizer)
			s.settle()
			l.setCut(i%2 == 0)
			h.kill()
			h = s.source(options)
			h.setValue("cluster1", "app", fmt.Sprint("value", i))
			s.settle()
			h.delete("cluster1", "app")
			if i%2 == 0 && profile == codec.ManifestWork { // the other counts versions for each work, and so forgets them
				if err := h.Forget(s.t.Context(), "cluster1"); err != nil {
					s.t.Fatal(err)
				}
				h.kill()
				h = s.source(options)
			}
			l.setCut(false)
			s.settleProcesses()
			for _, name := range a.names() {
				a.setFinalizers(name)
			}
			s.settle()
			expectProbes(s.t, fmt.Sprint("round ", i), h, "", "", "")
			holding(s.t, fmt.Sprint("round ", i), a)
		}
	})
}

// copyOf returns a store with what another has now.
func (s *scene) copyOf(store work.Store) work.Store {
	s.t.Helper()
	out := work.NewMemoryStore()
	var changes []work.Change
	if err := store.Load(s.t.Context(), func(key string, value []byte) error {
		changes = append(changes, work.Change{Key: key, Value: slices.Clone(value)})
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := out.Apply(s.t.Context(), changes); err != nil {
		s.t.Fatal(err)
	}
	return out
}
