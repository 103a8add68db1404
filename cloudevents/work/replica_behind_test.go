// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// failoverStore is a shared store on a server with a standby. A failover replaces the content by that
// of the standby. Its followers get ErrBehind then.
type failoverStore struct {
	mu    sync.Mutex
	store *work.MemoryStore
	over  chan struct{} // closed by failOver
}

func newFailoverStore() *failoverStore {
	return &failoverStore{store: work.NewMemoryStore(), over: make(chan struct{})}
}

func (s *failoverStore) failOver(standby *work.MemoryStore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	s.store, s.over = standby, make(chan struct{})
}

func (s *failoverStore) current() (*work.MemoryStore, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store, s.over
}

func (s *failoverStore) Load(ctx context.Context, f func(key string, value []byte) error) error {
	store, _ := s.current()
	return store.Load(ctx, f)
}

func (s *failoverStore) Apply(ctx context.Context, changes []work.Change) error {
	store, _ := s.current()
	return store.Apply(ctx, changes)
}

func (s *failoverStore) ApplyIf(ctx context.Context, condition work.Change, changes []work.Change) error {
	store, _ := s.current()
	return store.ApplyIf(ctx, condition, changes)
}

func (s *failoverStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	store, over := s.current()
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-over:
			stop()
		case <-following.Done():
		}
	}()
	err := store.Follow(following, at, keys, f)
	select {
	case <-over:
		return work.ErrBehind
	default:
		return err
	}
}

// TestReplicaIsBehind: replicas that get ErrBehind read the whole content. It is no failure: nothing
// is logged, and Healthy returns nil. The leader continues to write.
func TestReplicaIsBehind(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFailoverStore()
		first := s.replicaOf(store)
		options := work.SourceOptions{SourceID: "hub", SharedGroup: "hubs", Store: store}
		source, err := work.NewSource(s.bus.Transport(), options)
		if err != nil {
			t.Fatal(err)
		}
		process, logs := s.runLogged(source)
		second := &hub{Source: source, process: process, t: t}
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		for i := range 3 {
			same, _ := store.current()
			store.failOver(same) // nothing is lost
			s.settle()           // a write meanwhile may return ServiceUnavailable
			first.setValue("cluster1", "app", fmt.Sprint("value", i))
			s.settle()
			sameWorks(t, first, second)
			for name, h := range map[string]*hub{"first": first, "second": second} {
				if err := h.Healthy(); err != nil {
					t.Errorf("%s: Healthy: %v", name, err)
				}
			}
		}
		if text := logs(); strings.Contains(text, "Failed") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// TestFailoverLosesWrites: a failover loses the last writes of the leader. All replicas, the leader
// included, then show the works of the store, and the agent's newer work is kept until its owner
// declares the inventory complete.
func TestFailoverLosesWrites(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFailoverStore()
		first, second := s.replicaOf(store), s.replicaOf(store)
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.complete()
		first.create("cluster1", newWork("kept", "1"))
		s.settle()
		standby := s.copyOf(store).(*work.MemoryStore)
		first.create("cluster1", newWork("lost", "1"))
		first.create("cluster2", newWork("lost", "1")) // its agent is away
		s.settle()
		store.failOver(standby)
		s.settle()
		sameWorks(t, first, second)
		first.setValue("cluster1", "kept", "2")
		s.settle()
		sameWorks(t, first, second)
		if items := first.list("").Items; len(items) != 1 || items[0].Name != "kept" {
			t.Errorf("the leader shows %d works, the store has one", len(items))
		}
		for name, h := range map[string]*hub{"first": first, "second": second} {
			if clusters := h.Clusters(); len(clusters) != 1 {
				t.Errorf("%s has %d clusters, the store has one", name, len(clusters))
			}
		}
		const older = "the Store is older than the works of 1 clusters"
		if err := first.Healthy(); err == nil || !strings.Contains(err.Error(), older) {
			t.Errorf("Healthy: %v", err)
		}
		holding(t, "after the failover", a, "kept", "lost")
		if got := valueOf(t, a.get("kept")); got != "2" {
			t.Errorf("the agent has %q", got)
		}
	})
}
