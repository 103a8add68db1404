// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// behindStore is a store with a Follow that returns ErrBehind on request.
type behindStore struct {
	*faultyShared
	mu   sync.Mutex
	over context.CancelCauseFunc // of the current Follow
}

func (b *behindStore) prune() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over(work.ErrBehind)
}

func (b *behindStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	following, over := context.WithCancelCause(ctx)
	defer over(nil)
	b.mu.Lock()
	b.over = over
	b.mu.Unlock()
	if err := b.faultyShared.Follow(following, at, keys, f); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(following)
}

// TestLeaderIsBehindDuringWrite: a leader reads the whole content while the store still has a write of
// its own. If the store makes the write after that, no replica lacks it.
func TestLeaderIsBehindDuringWrite(t *testing.T) {
	inScene(t, func(s *scene) {
		store := &behindStore{faultyShared: newFaultyShared()}
		first, second := s.replicaOf(store), s.replicaOf(store.MemoryStore)
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		finish := s.stalledPatch(store.faultyShared, first, "late")
		store.prune()
		s.settle()
		if err := finish(); err != nil && !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the write: %v", err)
		}
		s.settle()
		sameWorks(t, first, second)
		a.report("app", "done")
		s.settle()
		if got := applied(second.get("cluster1", "app")); got != "done" {
			t.Errorf("after the leader was behind, it made %q of an event", got)
		}
		first.setValue("cluster1", "app", "2")
		s.settle()
		sameWorks(t, first, second)
	})
}

// TestFailoverRepeatsNoVersion: after a failover, the leader assigns no resourceVersions that it had
// assigned before: other replicas and clients may have other objects with them.
func TestFailoverRepeatsNoVersion(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFailoverStore()
		lagging := &lossyStore{}
		first := s.replicaOf(store)
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		lagging.MemoryStore, _ = store.current()
		second := s.replicaOf(lagging)
		s.settle()
		standby := s.copyOf(store).(*work.MemoryStore)
		first.setValue("cluster1", "app", "lost")
		first.setValue("cluster1", "app", "lost too")
		s.settle()
		lost := first.list("").ResourceVersion
		lagging.lose(errors.New("no route to the store"))
		store.failOver(standby)
		s.settle()
		first.setValue("cluster1", "app", "2")
		first.setValue("cluster1", "app", "3")
		first.setValue("cluster1", "app", "4")
		s.settle()
		lagging.MemoryStore = standby
		lagging.lose(nil)
		s.settle()
		sameWorks(t, first, second)
		w, err := first.works("").Watch(s.t.Context(), metav1.ListOptions{ResourceVersion: lost})
		if err == nil {
			if e := <-w.ResultChan(); e.Type != watch.Error {
				t.Errorf("a watch from a lost version got %s %v", e.Type, e.Object)
			}
		}
	})
}

// TestLateRejectionOfFormerTerm: the store rejects a write of an earlier term after the replica has
// become the leader again. The replica continues to lead.
func TestLateRejectionOfFormerTerm(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyShared()
		first, second := s.replicaOf(store), s.replicaOf(store.MemoryStore)
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		finish := s.stalledPatch(store, first, "late")
		store.stall()() // other writes do not wait
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		go func() { _ = patchLabel(s.t.Context(), first, "app", "next") }() // waits for the earlier write
		s.settle()
		if err := finish(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the write that was rejected: %v", err)
		}
		s.settle()
		a.report("app", "done")
		s.settle()
		if got := applied(second.get("cluster1", "app")); got != "done" {
			t.Errorf("no replica leads: it shows %q", got)
		}
		sameWorks(t, first, second)
	})
}
