// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// distantStore is a shared store across a network. Each write is delayed before and after it is
// done, and followers receive changes late.
type distantStore struct {
	*work.MemoryStore
	before, after, behind func() time.Duration
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func (d *distantStore) ApplyIf(ctx context.Context, condition work.Change, changes []work.Change) error {
	time.Sleep(d.before())
	defer func() { time.Sleep(d.after()) }()
	return d.MemoryStore.ApplyIf(ctx, condition, changes)
}

func (d *distantStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	return d.MemoryStore.Follow(ctx, at, keys, func(b work.Batch) error {
		time.Sleep(d.behind())
		return f(b)
	})
}

// patchLabel sets the label k.
func patchLabel(ctx context.Context, h *hub, name, value string) error {
	data := fmt.Appendf(nil, `{"metadata":{"labels":{"k":%q}}}`, value)
	_, err := h.works("cluster1").Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
	return err
}

// TestWriteDuringTakeoverFails: a write that waits for the store while another replica takes over
// returns an error. It does not return nil and get lost.
func TestWriteDuringTakeoverFails(t *testing.T) {
	inScene(t, func(s *scene) {
		store := &distantStore{work.NewMemoryStore(), always(100 * time.Millisecond), always(0), always(0)}
		first, second := s.replicaOf(store), s.replicaOf(store)
		s.settle()
		for _, name := range []string{"w0", "w1"} {
			first.create("cluster1", newWork(name, "1"))
		}
		s.settle()
		writes := map[string]func(ctx context.Context) error{
			"Patch": func(ctx context.Context) error { return patchLabel(ctx, first, "w1", "new") },
			"Create": func(ctx context.Context) error {
				_, err := first.works("cluster1").Create(ctx, newWork("w2", "1"), metav1.CreateOptions{})
				return err
			},
			"Delete": func(ctx context.Context) error {
				return first.works("cluster1").Delete(ctx, "w0", metav1.DeleteOptions{})
			},
			"Forget":            func(ctx context.Context) error { return first.Forget(ctx, "cluster9") },
			"InventoryComplete": func(ctx context.Context) error { return first.InventoryComplete(ctx) },
		}
		var group sync.WaitGroup
		group.Go(func() { _ = patchLabel(s.t.Context(), first, "w0", "new") }) // in progress
		time.Sleep(20 * time.Millisecond)
		for name, write := range writes { // these wait for the write in progress
			group.Go(func() {
				if err := write(s.t.Context()); !apierrors.IsServiceUnavailable(err) {
					t.Errorf("%s: %v, want ServiceUnavailable: another replica writes", name, err)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		if err := second.Lead(s.t.Context()); err != nil {
			t.Error(err)
		}
		group.Wait()
		s.settle()
		sameWorks(t, first, second)
	})
}

// countingStore counts the changes that its followers receive.
type countingStore struct {
	*work.MemoryStore
	changes atomic.Int32
}

func (c *countingStore) Follow(ctx context.Context, at string, keys []string, f func(work.Batch) error) error {
	return c.MemoryStore.Follow(ctx, at, keys, func(b work.Batch) error {
		c.changes.Add(int32(len(b.Changes)))
		return f(b)
	})
}

// TestReplicasReadOnlyChanges: a replica reads the whole store once, also if leadership moves.
func TestReplicasReadOnlyChanges(t *testing.T) {
	inScene(t, func(s *scene) {
		const works = 200
		memory := work.NewMemoryStore()
		first := s.replicaOf(memory)
		s.settle()
		for i := range works {
			first.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
		}
		s.settle()
		counted := &countingStore{MemoryStore: memory}
		second := s.replicaOf(counted)
		s.settle()
		if n := counted.changes.Load(); n < works || n > works+20 {
			t.Errorf("a new replica read %d records, want %d works once", n, works)
		}
		counted.changes.Store(0)
		for i := range 20 {
			if err := patchLabel(s.t.Context(), []*hub{second, first}[i%2], "w1", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			s.settle() // a replica that lags would return ServiceUnavailable
		}
		sameWorks(t, first, second)
		if n := counted.changes.Load(); n > 2*works {
			t.Errorf("in 20 changes of the leader, the replica read %d records: it reads all works again", n)
		}
	})
}

// TestLaggingReplicaMissesNoWorks: a lagging replica does not treat works that it has not received
// yet as missing.
func TestLaggingReplicaMissesNoWorks(t *testing.T) {
	verbs := map[string]func(s *scene, second *hub) error{
		"Patch":       func(s *scene, second *hub) error { return patchLabel(s.t.Context(), second, "w", "b") },
		"Patch again": func(s *scene, second *hub) error { return patchLabel(s.t.Context(), second, "old", "b") },
		"Delete": func(s *scene, second *hub) error {
			return second.works("cluster1").Delete(s.t.Context(), "w", metav1.DeleteOptions{})
		},
		"Update": func(s *scene, second *hub) error {
			_, err := second.works("cluster1").Update(s.t.Context(), newWork("w", "2"), metav1.UpdateOptions{})
			if apierrors.IsInvalid(err) { // it has no resourceVersion
				return nil
			}
			return err
		},
		"Lead and Get": func(s *scene, second *hub) error {
			if err := second.Lead(s.t.Context()); err != nil {
				return err
			}
			_, err := second.works("cluster1").Get(s.t.Context(), "w", metav1.GetOptions{})
			return err
		},
	}
	for name, write := range verbs {
		for _, wrote := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wrote=%t", name, wrote), func(t *testing.T) {
				inScene(t, func(s *scene) {
					store := &distantStore{work.NewMemoryStore(), always(0), always(0), always(300 * time.Millisecond)}
					first, second := s.replicaOf(store), s.replicaOf(store)
					s.settle()
					first.create("cluster1", newWork("old", "1"))
					s.settle()
					writer := first
					if wrote {
						writer = second
					}
					if err := patchLabel(s.t.Context(), writer, "old", "b"); err != nil {
						t.Fatal(err)
					}
					s.settle()
					first.create("cluster1", newWork("w", "1"))
					if err := patchLabel(s.t.Context(), first, "old", "a"); err != nil {
						t.Fatal(err)
					}
					if err := write(s, second); err != nil && !apierrors.IsServiceUnavailable(err) {
						t.Error(err)
					}
					s.settle()
					sameWorks(t, first, second)
					if got := second.get("cluster1", "old").Labels["k"]; name == "Patch again" && got != "b" {
						t.Errorf("the patch returned nil, and the label is %q", got)
					}
				})
			})
		}
	}
}

// maybe is a possible state of a work, for a user that received all answers to its writes.
type maybe struct {
	exists   bool
	label    string
	deleting bool
}

// TestConcurrentWritesAtReplicasHold: with users that write to any replica at the same time, over a
// slow store, the result of each answered write holds. Each work has one user, which tracks its
// possible states.
func TestConcurrentWritesAtReplicasHold(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inScene(t, func(s *scene) {
				wait := func(most time.Duration) func() time.Duration {
					return func() time.Duration { return rand.N(most) }
				}
				store := &distantStore{work.NewMemoryStore(), wait(20 * time.Millisecond), wait(20 * time.Millisecond),
					wait(40 * time.Millisecond)}
				replicas := []*hub{s.replicaOf(store), s.replicaOf(store), s.replicaOf(store)}
				s.settle()
				var group sync.WaitGroup
				for i := range uint64(4) {
					user := &replicaUser{t: t, name: fmt.Sprintf("w%d", i), replicas: replicas, can: []maybe{{}},
						random: rand.New(rand.NewPCG(seed, i))}
					group.Go(func() {
						for step := range 40 {
							user.step(s.t.Context(), step)
							time.Sleep(time.Duration(user.random.IntN(60)) * time.Millisecond)
						}
					})
				}
				group.Wait()
				s.settle()
				synctest.Wait()
				sameWorks(t, replicas[0], replicas[1])
				sameWorks(t, replicas[0], replicas[2])
			})
		})
	}
}

// replicaUser is the user of one work.
type replicaUser struct {
	t        *testing.T
	name     string
	replicas []*hub
	can      []maybe // possible states of the work
	random   *rand.Rand
	log      []string
}

// step does one random operation, and checks the answer against the possible states of the work.
func (u *replicaUser) step(ctx context.Context, step int) {
	at := u.random.IntN(len(u.replicas))
	r, value := u.replicas[at], fmt.Sprint(step)
	works := r.works("cluster1")
	var verb string
	var err error
	var effect func(maybe) maybe
	absent := false // the work must have been absent for the write to succeed
	switch n := u.random.IntN(10); {
	case n < 2:
		verb, absent = "create", true
		obj := newWork(u.name, "1")
		obj.Labels = map[string]string{"k": value}
		_, err = works.Create(ctx, obj, metav1.CreateOptions{})
		effect = func(maybe) maybe { return maybe{exists: true, label: value} }
	case n < 7:
		verb = "patch"
		err = patchLabel(ctx, r, u.name, value)
		effect = func(m maybe) maybe { m.label = value; return m }
	case n < 8 && step > 20:
		verb = "delete"
		err = works.Delete(ctx, u.name, metav1.DeleteOptions{})
		effect = func(m maybe) maybe { m.deleting = true; return m }
	default:
		u.look(ctx, r, at)
		return
	}
	u.log = append(u.log, fmt.Sprintf("%s %s on %d: %v", verb, value, at, err))
	var next []maybe
	for _, m := range u.can {
		done := m.exists != absent
		switch {
		case err == nil && done:
			next = append(next, effect(m))
		case apierrors.IsServiceUnavailable(err):
			next = append(next, m)
			if done {
				next = append(next, effect(m))
			}
		case apierrors.IsNotFound(err) && !m.exists, apierrors.IsAlreadyExists(err) && m.exists:
			next = append(next, m)
		}
	}
	u.holds(next)
}

// look makes a replica the leader and reads the work from it.
func (u *replicaUser) look(ctx context.Context, r *hub, at int) {
	if err := r.Lead(ctx); err != nil {
		u.log = append(u.log, fmt.Sprintf("lead on %d: %v", at, err))
		return
	}
	var seen maybe
	obj, err := r.works("cluster1").Get(ctx, u.name, metav1.GetOptions{})
	if err == nil {
		seen = maybe{exists: true, label: obj.Labels["k"], deleting: obj.DeletionTimestamp != nil}
	}
	u.log = append(u.log, fmt.Sprintf("see on %d: %+v", at, seen))
	var next []maybe
	if slices.Contains(u.can, seen) {
		next = []maybe{seen}
	}
	u.holds(next)
}

func (u *replicaUser) holds(next []maybe) {
	if len(next) == 0 {
		u.t.Errorf("%s can only have been %+v, but\n%s", u.name, u.can, u.log[max(0, len(u.log)-8):])
		next = []maybe{{}, {exists: true}}
	}
	slices.SortFunc(next, func(a, b maybe) int { return slices.Compare([]string{fmt.Sprint(a)}, []string{fmt.Sprint(b)}) })
	u.can = slices.Compact(next)
}

// lateAnswers is a shared store with writes of events that followers receive before the writer has
// the answer.
type lateAnswers struct{ *work.MemoryStore }

func (s lateAnswers) Apply(ctx context.Context, changes []work.Change) error {
	defer time.Sleep(time.Second)
	return s.MemoryStore.Apply(ctx, changes)
}

// TestInboxAfterTakeovers: events that a replica has stored, and handles as the leader before the
// store has answered, do not count for its inbox any more.
func TestInboxAfterTakeovers(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		options := work.SourceOptions{SourceID: "hub", SharedGroup: "hubs", Store: lateAnswers{store}}
		source, err := work.NewSource(s.bus.Transport(), options)
		if err != nil {
			t.Fatal(err)
		}
		work.SetMaxInbox(source, 8<<10)
		process, logs := s.runLogged(source)
		h := &hub{Source: source, process: process, t: s.t}
		a := s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		for i := range 20 {
			other := s.replicaOf(store)
			s.settle()
			if err := other.Lead(s.t.Context()); err != nil {
				t.Fatal(err)
			}
			other.kill()
			s.settle()
			a.report("app", fmt.Sprint(i))
			time.Sleep(500 * time.Millisecond)
			if err := h.Lead(s.t.Context()); err != nil {
				t.Fatal(err)
			}
			s.settle()
		}
		if text := logs(); strings.Contains(text, "Dropped events") {
			t.Errorf("logged:\n%s", text)
		}
	})
}
