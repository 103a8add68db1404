// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"fmt"
	"testing"
	"time"

	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// TestInitialSync: an agent's informer does not sync before its sources have answered in full: at once where
// they are named, after the timeout where not or where one is silent.
func TestInitialSync(t *testing.T) {
	tests := []struct {
		name    string
		options work.AgentOptions
		want    time.Duration
	}{
		{"all sources answer", work.AgentOptions{Sources: []string{"hub"}}, 0},
		{"one is silent", work.AgentOptions{Sources: []string{"hub", "absent"}, InitialSyncTimeout: 5 * time.Second}, 5 * time.Second},
		{"any source", work.AgentOptions{}, work.DefaultInitialSyncTimeout},
		{"no waiting", work.AgentOptions{InitialSyncTimeout: -1}, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				for i := range 50 {
					h.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
				}
				s.settle()
				a := s.agent(tc.options)
				began := time.Now()
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				for !informer.HasSynced() {
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(began); took < tc.want || took > tc.want+300*time.Millisecond {
					t.Errorf("synced after %s, want %s", took, tc.want)
				}
				if n := len(informer.GetStore().List()); n != 50 && tc.options.InitialSyncTimeout >= 0 {
					t.Errorf("synced with %d works of 50", n)
				}
			})
		})
	}
}

// TestInitialSyncWithLateSource: an agent that was there first syncs as soon as its source has answered.
func TestInitialSyncWithLateSource(t *testing.T) {
	for _, complete := range []bool{false, true} {
		t.Run(fmt.Sprintf("inventory complete: %t", complete), func(t *testing.T) {
			inScene(t, func(s *scene) {
				a := s.agent(work.AgentOptions{Sources: []string{"hub"}, InitialSyncTimeout: time.Hour})
				informer := s.informer(workinformers.NewSharedInformerFactory(a.Clientset(), 0))
				s.settle()
				if informer.HasSynced() {
					t.Error("synced before the source was there")
				}
				s.bus.Disconnect()
				h := s.source(work.SourceOptions{})
				if complete {
					if err := h.InventoryComplete(s.t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				h.create("cluster1", newWork("app", "1"))
				h.create("cluster2", newWork("elsewhere", "1"))
				s.bus.Reconnect()
				for range 3 {
					s.settle()
				}
				if n := len(informer.GetStore().List()); !informer.HasSynced() || n != 1 {
					t.Errorf("synced %t with %d works", informer.HasSynced(), n)
				}
			})
		})
	}
}
