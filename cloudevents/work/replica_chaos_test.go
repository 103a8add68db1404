// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// chaosStore is a replica's connection to a shared store. While it is broken, writes are late, fail, or
// are made and fail, and Follow is late and often ends.
type chaosStore struct {
	*work.MemoryStore
	broken *atomic.Bool
	mu     sync.Mutex
	random *rand.Rand
}

var errChaos = errors.New("chaos")

func (c *chaosStore) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.broken.Load() {
		return -1
	}
	return c.random.IntN(n)
}

func (c *chaosStore) pause(most time.Duration) { time.Sleep(time.Duration(max(c.roll(int(most)), 0))) }

func (c *chaosStore) write(apply func() error) error {
	c.pause(300 * time.Millisecond)
	switch c.roll(12) {
	case 0:
		return errChaos
	case 1:
		_ = apply()
		return errChaos
	}
	err := apply()
	c.pause(300 * time.Millisecond)
	return err
}

func (c *chaosStore) Apply(ctx context.Context, changes []work.Change) error {
	return c.write(func() error { return c.MemoryStore.Apply(context.WithoutCancel(ctx), changes) })
}

func (c *chaosStore) ApplyIf(ctx context.Context, condition work.Change, changes []work.Change) error {
	return c.write(func() error { return c.MemoryStore.ApplyIf(context.WithoutCancel(ctx), condition, changes) })
}

func (c *chaosStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	if at != "" && c.roll(4) == 0 {
		return work.ErrBehind
	}
	state := true
	return c.MemoryStore.Follow(ctx, at, keys, func(b work.Batch) error {
		c.pause(200 * time.Millisecond)
		if state && len(b.Changes) > 1 { // in two parts
			part := b
			part.Position, part.Changes, b.Changes = "", b.Changes[:len(b.Changes)/2], b.Changes[len(b.Changes)/2:]
			if err := f(part); err != nil {
				return err
			}
			c.pause(200 * time.Millisecond)
			if c.roll(8) == 0 {
				return errChaos
			}
		}
		state = false
		if err := f(b); err != nil {
			return err
		}
		if c.roll(12) == 0 {
			return errChaos
		}
		if c.roll(20) == 0 {
			return work.ErrBehind
		}
		return nil
	})
}

// TestReplicasWithBrokenStore: whatever fails, all replicas show the content of the store in the end,
// no acknowledged write is lost, and watches deliver each change once.
func TestReplicasWithBrokenStore(t *testing.T) {
	for seed := range 30 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inScene(t, func(s *scene) { s.breakStore(uint64(seed)) })
		})
	}
}

func (s *scene) breakStore(seed uint64) {
	shared, broken, random := work.NewMemoryStore(), &atomic.Bool{}, rand.New(rand.NewPCG(seed, 7))
	var replicas []*hub
	var watches []*replicaWatch
	for i := range 3 {
		r := s.replicaOf(&chaosStore{
			MemoryStore: shared, broken: broken, random: rand.New(rand.NewPCG(seed, uint64(i))),
		})
		replicas = append(replicas, r)
		watches = append(watches, followWatch(s.t.Context(), s.t, fmt.Sprint("replica ", i), r.works("").Watch))
	}
	a := s.agent(work.AgentOptions{})
	s.settle()
	broken.Store(true)
	stored := map[string]string{} // by name; missing if unknown
	for step := range 60 {
		name, value, remove := fmt.Sprint("w", random.IntN(6)), fmt.Sprint(step), random.IntN(5) == 0
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		delete(stored, name)
		if putOrRemove(ctx, replicas[random.IntN(3)], name, value, remove) == nil && !remove {
			stored[name] = value
		}
		cancel()
		if random.IntN(4) == 0 {
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			a.applyAll()
		}
	}
	broken.Store(false)
	time.Sleep(time.Minute)
	if err := replicas[0].Lead(s.t.Context()); err != nil {
		s.t.Error(err)
	}
	for range 5 {
		time.Sleep(time.Minute)
		a.applyAll()
	}
	time.Sleep(3 * time.Minute)
	s.settle()
	fresh := s.replicaOf(shared)
	s.settle()
	s.showStored(fresh.list("").Items, stored, replicas, watches)
}

// showStored checks that replicas and their watches have the works of the store, with the values that
// were acknowledged.
func (s *scene) showStored(
	items []workv1.ManifestWork, stored map[string]string, replicas []*hub, watches []*replicaWatch,
) {
	for i, r := range replicas {
		if diff := cmp.Diff(items, r.list("").Items, cmpopts.EquateEmpty()); diff != "" {
			s.t.Errorf("replica %d differs from the store:\n%s", i, diff)
		}
		if err := r.Healthy(); err != nil {
			s.t.Errorf("replica %d: %v", i, err)
		}
		watches[i].mu.Lock()
		if n := len(watches[i].have); n != len(items) {
			s.t.Errorf("the watch of replica %d has %d works, want %d", i, n, len(items))
		}
		watches[i].mu.Unlock()
	}
	for _, w := range items {
		value := valueOf(s.t, &w)
		if want, ok := stored[w.Name]; ok && value != want {
			s.t.Errorf("%s has the value %s, %s was acknowledged", w.Name, value, want)
		}
		delete(stored, w.Name)
		if w.DeletionTimestamp == nil && applied(&w) != value {
			s.t.Errorf("%s has the value %s and the status %q", w.Name, value, applied(&w))
		}
	}
	if len(stored) > 0 {
		s.t.Errorf("acknowledged works are missing: %v", stored)
	}
}

func putOrRemove(ctx context.Context, r *hub, name, value string, remove bool) error {
	works := r.works("cluster1")
	obj, err := works.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = works.Create(ctx, newWork(name, value), metav1.CreateOptions{})
	case err == nil && obj.DeletionTimestamp != nil:
		return errChaos // its agent removes it
	case err == nil && remove:
		err = works.Delete(ctx, name, metav1.DeleteOptions{})
	case err == nil:
		obj.Spec = newWork(name, value).Spec
		_, err = works.Update(ctx, obj, metav1.UpdateOptions{})
	}
	return err
}
