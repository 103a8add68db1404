// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestLeadWhenReady: Lead succeeds as soon as Ready is closed.
func TestLeadWhenReady(t *testing.T) {
	for range 20 {
		inScene(t, func(s *scene) {
			h := s.replicaOf(work.NewMemoryStore())
			<-h.Ready()
			if err := h.Lead(s.t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStoppedReplica: a replica that has stopped, or is about to stop, does not take the leadership
// from a running replica.
func TestStoppedReplica(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		first, second, a := s.replicaOf(store), s.replicaOf(store), s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		second.setValue("cluster1", "app", "2")
		s.settle()
		first.kill()
		for name, call := range map[string]func(context.Context) error{
			"Lead":              first.Lead,
			"InventoryComplete": first.InventoryComplete,
			"Forget":            func(ctx context.Context) error { return first.Forget(ctx, "cluster1") },
			"Create": func(ctx context.Context) error {
				_, err := first.works("cluster1").Create(ctx, newWork("late", "1"), metav1.CreateOptions{})
				return err
			},
			"Delete": func(ctx context.Context) error {
				return first.works("cluster1").Delete(ctx, "app", metav1.DeleteOptions{})
			},
		} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
			if err := call(ctx); !apierrors.IsServiceUnavailable(err) || time.Since(began) > 0 {
				t.Errorf("%s of a stopped replica: %v after %s", name, err, time.Since(began))
			}
			cancel()
		}
		a.report("app", "done")
		s.settle()
		if got := applied(second.get("cluster1", "app")); got != "done" {
			t.Errorf("the replica that writes shows %q", got)
		}
	})
}

// TestStopWhileWaitingToLead: a call of Lead that waits returns an error when the replica stops.
func TestStopWhileWaitingToLead(t *testing.T) {
	inScene(t, func(s *scene) {
		h := s.replicaOf(silentStore{work.NewMemoryStore()})
		s.settle()
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() { errs <- h.Lead(s.t.Context()) }()
		}
		s.settle()
		h.kill()
		for range cap(errs) {
			if err := <-errs; !apierrors.IsServiceUnavailable(err) {
				t.Errorf("Lead of a replica that stops: %v", err)
			}
		}
	})
}

// TestReplicaThatCannotReadReportsError: a replica that cannot read the writes of other replicas
// reports an error, because its works may be stale.
func TestReplicaThatCannotReadReportsError(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		lossy := &lossyStore{MemoryStore: store}
		first, second := s.replicaOf(store), s.replicaOf(lossy)
		s.settle()
		if err := second.Readyz(nil); err != nil {
			t.Errorf("Readyz: %v", err)
		}
		lossy.lose(errors.New("no route to the store"))
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		for name, err := range map[string]error{"Healthy": second.Healthy(), "Readyz": second.Readyz(nil)} {
			if err == nil || !strings.Contains(err.Error(), "no route to the store") ||
				!strings.Contains(err.Error(), "since 2000-01-01T") {
				t.Errorf("%s of a replica that cannot follow: %v", name, err)
			}
		}
		if err := second.Livez(nil); err != nil {
			t.Errorf("Livez: %v", err)
		}
		lossy.lose(nil)
		s.settle()
		if err := second.Healthy(); err != nil {
			t.Errorf("Healthy of a replica that follows again: %v", err)
		}
		sameWorks(t, first, second)
	})
}

// TestLeaderChangeIsNoFailure: a change of leader is not a failure. The previous leader keeps its
// connection. The new leader requests a status that the previous leader could not store.
func TestLeaderChangeIsNoFailure(t *testing.T) {
	inScene(t, func(s *scene) {
		shared := newFaultyShared()
		source, err := work.NewSource(s.bus.Transport(), work.SourceOptions{SourceID: "hub", SharedGroup: "hubs",
			Store: shared})
		if err != nil {
			t.Fatal(err)
		}
		p, logs := s.runLogged(source)
		first := &hub{Source: source, process: p, t: s.t}
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		release := shared.stall()
		a.report("app", "done") // the first replica is the only one, so it receives the status
		s.settle()
		second := s.replicaOf(shared.MemoryStore)
		s.settle()
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		release()
		s.settle()
		s.settle()
		if got := applied(second.get("cluster1", "app")); got != "done" {
			t.Errorf("the replica that writes shows %q", got)
		}
		sameWorks(t, first, second)
		if text := logs(); strings.Contains(text, "Cannot") || strings.Contains(text, "Lost the connection") ||
			strings.Count(text, "Lost the leadership") != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// lateStore is a store that delivers changes late.
type lateStore struct {
	*faultyShared
	behind time.Duration
}

func (l *lateStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	return l.faultyShared.Follow(ctx, at, keys, func(b work.Batch) error {
		time.Sleep(l.behind)
		return f(b)
	})
}

// TestLateFailureOfFormerLeader: a write of the leader fails after another replica has taken over.
// The former leader does not repeat the write, which could undo writes of the new leader.
func TestLateFailureOfFormerLeader(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyShared()
		first := s.replicaOf(&lateStore{store, 500 * time.Millisecond})
		second := s.replicaOf(store.MemoryStore)
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		store.setFail(errors.New("no answer"))
		finish := s.stalledPatch(store, first, "first")
		store.setFail(nil)
		if err := patchLabel(s.t.Context(), second, "app", "second"); err != nil {
			t.Fatal(err)
		}
		s.settle() // the first replica mirrors the second
		if err := finish(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the write that failed: %v", err)
		}
		time.Sleep(900 * time.Millisecond) // the first replica would repeat it after 1 s
		if err := patchLabel(s.t.Context(), second, "app", "third"); err != nil {
			t.Fatal(err)
		}
		s.settle()
		sameWorks(t, first, second)
		if got := second.get("cluster1", "app").Labels["k"]; got != "third" {
			t.Errorf("the label is %q, want the last one of the new leader", got)
		}
		third := s.replicaOf(store.MemoryStore)
		s.settle()
		sameWorks(t, second, third)
	})
}

// TestLateRejectionDoesNotPreventTakeover: the store rejects a write of the former leader after that
// replica has mirrored the new leader. The former leader can take over again, also if no other
// replica writes.
func TestLateRejectionDoesNotPreventTakeover(t *testing.T) {
	inScene(t, func(s *scene) {
		store := newFaultyShared()
		first, second := s.replicaOf(store), s.replicaOf(store.MemoryStore)
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		finish := s.stalledPatch(store, first, "first")
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		second.kill()
		if err := finish(); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("the write that was rejected: %v", err)
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		if err := patchLabel(ctx, first, "app", "again"); err != nil {
			t.Error(err)
		}
	})
}

// lossyStore is a store with a Follow that fails while lost is set.
type lossyStore struct {
	*work.MemoryStore
	mu   sync.Mutex
	lost error
	stop context.CancelFunc // ends the current Follow
}

func (l *lossyStore) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
	l.stop()
}

func (l *lossyStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	l.mu.Lock()
	l.stop = stop
	lost := l.lost
	l.mu.Unlock()
	if lost != nil {
		return lost
	}
	err := l.MemoryStore.Follow(following, at, keys, f)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil && l.lost != nil {
		return l.lost
	}
	return err
}

// silentStore is a store with a Follow that delivers no changes after the whole content.
type silentStore struct{ *work.MemoryStore }

func (s silentStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	if at == "" {
		return s.MemoryStore.Follow(ctx, at, keys, f)
	}
	<-ctx.Done()
	return nil
}

// TestReplicaFollowsForget: a replica keeps a cluster if one batch deletes its record and adds new
// works to it.
func TestReplicaFollowsForget(t *testing.T) {
	inScene(t, func(s *scene) {
		options := work.SourceOptions{
			SourceID: "hub", SharedGroup: "hubs", Store: work.NewMemoryStore(), Profile: codec.ManifestBundle,
		}
		leader := s.source(options)
		s.settle()
		if err := leader.Lead(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		leader.complete()
		follower := s.source(options)
		s.settle()
		for i := range 100 {
			cluster := fmt.Sprint("cluster", i)
			leader.create(cluster, newWork("app", "1")) // no agent of the cluster has ever connected
			leader.delete(cluster, "app")
			if err := leader.Forget(s.t.Context(), cluster); err != nil {
				s.t.Fatal(err)
			}
			leader.create(cluster, newWork("next", "1"))
		}
		s.settle()
		if n, clusters := work.StateOf(follower.Source).Orphans, len(follower.Clusters()); n > 0 || clusters != 100 {
			s.t.Errorf("the replica has %d clusters, and %d works of others", clusters, n)
		}
	})
}
