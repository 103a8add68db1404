// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestRestoredBackup: a source with a store older than the works of its agents deletes no unknown
// works until InventoryComplete is called. The same applies after another restart.
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
		h.setValue("cluster1", "before", "2") // before any agent has shown its works
		h.create("cluster1", newWork("new", "1"))
		s.settle()
		l.setCut(true)
		l.setCut(false) // a bundle source with a store learns of unknown works when their agent connects
		time.Sleep(time.Minute)
		const old = "the Store is older than the works of 1 clusters (first: cluster1)"
		expectProbes(s.t, "restored", h, old, "", "")
		holding(s.t, "restored", a, "after", "before", "new")
		h.kill()
		h = s.source(work.SourceOptions{Profile: profile, Store: backup})
		time.Sleep(time.Minute)
		expectProbes(s.t, "restarted", h, old, "", "")
		holding(s.t, "restarted", a, "after", "before", "new")

		h.complete()
		s.settleProcesses()
		expectProbes(s.t, "after InventoryComplete", h, "", "", "")
		holding(s.t, "after InventoryComplete", a, "before", "new")
		h.kill()
		h = s.source(work.SourceOptions{Profile: profile, Store: backup})
		s.settle()
		expectProbes(s.t, "restarted after InventoryComplete", h, "", "", "")
	})
}

// TestRestoredBackupIsDetectedOnConnect: a source requests the works of all clusters, unknown
// clusters included, as soon as it connects.
func TestRestoredBackupIsDetectedOnConnect(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		h := s.source(work.SourceOptions{Store: store})
		for _, cluster := range []string{"cluster1", "cluster2"} {
			s.agent(work.AgentOptions{ClusterName: cluster})
		}
		h.complete()
		h.create("cluster1", newWork("before", "1"))
		s.settle()
		backup := s.copyOf(store)
		h.create("cluster2", newWork("after", "1"))
		s.settle()
		h.kill()

		h = s.source(work.SourceOptions{Store: backup})
		s.settle()
		expectProbes(s.t, "restored", h, "the Store is older than the works of 1 clusters (first: cluster2)", "", "")
	})
}

// TestRestoredBackupWithInventoryCompleteAtStart: a program that declares its inventory complete at
// each start deletes no works that a restored Store lacks. A call after the source has detected the
// backup takes effect.
func TestRestoredBackupWithInventoryCompleteAtStart(t *testing.T) {
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
		h.complete() // before the source has detected the old store
		l.setCut(false)
		time.Sleep(15 * time.Minute) // until the source of either profile has compared all works
		expectProbes(s.t, "declared at the start", h, "the Store is older than the works of 1 clusters", "", "")
		holding(s.t, "declared at the start", a, "after", "before")
		h.complete()
		time.Sleep(time.Minute)
		expectProbes(s.t, "declared again", h, "", "", "")
		holding(s.t, "declared again", a, "before")
	})
}

// TestRestoredBackupWithOfflineCluster: the works of a cluster are kept if the cluster was
// disconnected while the restored source wrote and restarted.
func TestRestoredBackupWithOfflineCluster(t *testing.T) {
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
		expectProbes(s.t, "the cluster is back", h, "the Store is older", "", "")
		holding(s.t, "the cluster is back", a, "after", "before")
	})
}

// TestRestartIsNoRestoredBackup: a source does not report an old store after restarts, writes,
// forgotten clusters or disconnected clusters.
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
			if i%2 == 0 && profile == codec.ManifestWork { // the other drops its per-work versions in Forget
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

// TestRestoredBackupOfBusySource: an old store is detected if the source had restarted and written
// before the backup, while the agent was disconnected.
func TestRestoredBackupOfBusySource(t *testing.T) {
	for _, restarts := range []int{1, 12} {
		t.Run(fmt.Sprint("restarts: ", restarts), func(t *testing.T) {
			inProfiles(t, func(s *scene, profile codec.Profile) {
				options := work.SourceOptions{Profile: profile, Store: work.NewMemoryStore()}
				l := &link{Transport: s.bus.Transport()}
				h := s.source(options)
				a := s.agentOn(l, work.AgentOptions{ClusterName: "cluster1", Profile: profile})
				h.complete()
				h.create("cluster1", newWork("old", "1"))
				s.settle()
				l.setCut(true)
				for i := range restarts {
					h.kill()
					h = s.source(options)
					h.create("cluster1", newWork(fmt.Sprint("before", i), "1"))
					s.settle()
				}
				backup := s.copyOf(options.Store)
				l.setCut(false)
				time.Sleep(time.Minute)
				h.create("cluster1", newWork("after", "1"))
				time.Sleep(time.Minute)
				l.setCut(true)
				h.kill()

				h = s.source(work.SourceOptions{Profile: profile, Store: backup})
				s.settle()
				l.setCut(false)
				time.Sleep(15 * time.Minute)
				expectProbes(s.t, "restored", h, "the Store is older", "", "")
				if names := a.names(); !slices.Contains(names, "after") || len(names) != restarts+2 {
					s.t.Errorf("the agent has %v", names)
				}
			})
		})
	}
}

// TestRestoredBackupWithClockBehind: an old store is detected if the restored source writes lower
// versions than those that the backup lacks.
func TestRestoredBackupWithClockBehind(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		l := &link{Transport: s.bus.Transport()}
		h, a := s.source(work.SourceOptions{Store: store}), s.agentOn(l, work.AgentOptions{ClusterName: "cluster1"})
		h.complete()
		h.create("cluster1", newWork("before", "1"))
		s.settle()
		backup := s.copyOf(store)
		time.Sleep(5 * time.Minute)
		h.create("cluster1", newWork("after", "1"))
		s.settle()
		l.setCut(true)
		h.kill()
		h = s.source(work.SourceOptions{Store: backup, Clock: new(steppedClock).set(-10 * time.Minute)})
		h.setValue("cluster1", "before", "2")
		s.settle()
		l.setCut(false)
		time.Sleep(2 * time.Minute)
		expectProbes(s.t, "restored", h, "the Store is older", "", "")
		holding(s.t, "restored", a, "after", "before")
	})
}

// TestForgetAfterRestoredBackup: Forget of one cluster after a restored backup does not remove the
// protection of another cluster, which the backup lacks. The forgotten cluster is protected again
// when it returns.
func TestForgetAfterRestoredBackup(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		h := s.source(work.SourceOptions{Store: store})
		l1, l2 := &link{Transport: s.bus.Transport()}, &link{Transport: s.bus.Transport()}
		a1 := s.agentOn(l1, work.AgentOptions{ClusterName: "cluster1"})
		h.complete()
		h.create("cluster1", newWork("before", "1"))
		s.settle()
		backup := s.copyOf(store)
		a2 := s.agentOn(l2, work.AgentOptions{ClusterName: "cluster2"})
		h.create("cluster1", newWork("after", "1"))
		h.create("cluster2", newWork("late", "1"))
		s.settle()
		l1.setCut(true)
		l2.setCut(true)
		h.kill()

		h = s.source(work.SourceOptions{Store: backup})
		l1.setCut(false)
		time.Sleep(time.Minute)
		const old = "the Store is older than the works of 1 clusters"
		expectProbes(s.t, "restored", h, old+" (first: cluster1)", "", "")
		h.delete("cluster1", "before")
		s.settle()
		l1.setCut(true)
		if err := h.Forget(s.t.Context(), "cluster1"); err != nil {
			s.t.Fatal(err)
		}
		for restart := range 2 {
			l2.setCut(false)
			s.settleProcesses()
			expectProbes(s.t, fmt.Sprint("cluster2 is back ", restart), h, old+" (first: cluster2)", "", "")
			holding(s.t, fmt.Sprint("cluster2 is back ", restart), a2, "late")
			l2.setCut(true)
			h.kill()
			h = s.source(work.SourceOptions{Store: backup})
		}
		l1.setCut(false)
		s.settleProcesses()
		expectProbes(s.t, "cluster1 is back", h, "the Store is older than the works of 2 clusters", "", "")
		holding(s.t, "cluster1 is back", a1, "after")
		h.complete()
		l2.setCut(false)
		s.settleProcesses()
		holding(s.t, "after InventoryComplete", a1)
		holding(s.t, "after InventoryComplete", a2)
		expectProbes(s.t, "after InventoryComplete", h, "", "", "")
	})
}

// TestForgottenClustersAreBounded: the Store keeps a limited number of forgotten clusters, those
// that were used last.
func TestForgottenClustersAreBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		h := s.source(work.SourceOptions{Store: store})
		h.complete()
		const clusters = 10_000
		for i := range clusters {
			cluster := fmt.Sprintf("cluster%05d", i)
			h.create(cluster, newWork("app", "1"))
			h.delete(cluster, "app")
			if err := h.Forget(s.t.Context(), cluster); err != nil {
				s.t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		s.settle()
		records, bytes := 0, 0
		oldest := ""
		if err := store.Load(s.t.Context(), func(key string, value []byte) error {
			if name, ok := strings.CutPrefix(key, "cluster/"); ok {
				records, bytes = records+1, bytes+len(key)+len(value)
				if oldest == "" || name < oldest {
					oldest = name
				}
			}
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
		if records < 5_000 || records >= clusters || bytes > 2<<20 {
			s.t.Errorf("%d records of forgotten clusters in %d bytes", records, bytes)
		}
		if want := fmt.Sprintf("cluster%05d", clusters-records); oldest != want {
			s.t.Errorf("the oldest is %s, want %s", oldest, want)
		}
	})
}

// copyOf returns a new store with the current content of another store.
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
