// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
)

// TestWritesWhileStartEnds: a write that has returned nil when the context of Start ends is
// published, or stored if the source has a Store. Every other write fails.
func TestWritesWhileStartEnds(t *testing.T) {
	for name, store := range map[string]func() *work.MemoryStore{
		"in memory":    func() *work.MemoryStore { return nil },
		"with a store": work.NewMemoryStore,
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 30 {
				lost, accepted := writeWhileStartEnds(t, store(), time.Duration(round)*100*time.Microsecond)
				if len(lost) > 0 {
					t.Fatalf("round %d: %d of %d writes that returned nil are neither stored nor published, %s among them",
						round, len(lost), accepted, lost[0])
				}
			}
		})
	}
}

// writeWhileStartEnds runs eight writers that create works of a source. The source stops a while
// after it is connected. It returns the accepted works that are neither published nor stored.
func writeWhileStartEnds(t *testing.T, store *work.MemoryStore, after time.Duration) (lost []string, accepted int) {
	t.Helper()
	bus := memory.New()
	var mu sync.Mutex
	published := map[string]bool{}
	bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
		if msg, err := codec.ManifestWork.Decode(m.Topic, m.Event); err == nil {
			if spec, ok := msg.(*codec.Spec); ok {
				mu.Lock()
				published[spec.Name] = true
				mu.Unlock()
			}
		}
		deliver(m)
	})
	options := work.SourceOptions{SourceID: "hub", DrainTimeout: time.Minute}
	if store != nil {
		options.Store = store
	}
	source, err := work.NewSource(bus.Transport(), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := source.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	<-source.Ready()
	names := make([][]string, 8)
	var writers sync.WaitGroup
	for i := range names {
		writers.Go(func() {
			works := source.Clientset().WorkV1().ManifestWorks("cluster1")
			for j := 0; ; j++ {
				name := fmt.Sprintf("w%d-%d", i, j)
				if _, err := works.Create(t.Context(), newWork(name, "1"), metav1.CreateOptions{}); err != nil {
					if !apierrors.IsServiceUnavailable(err) {
						t.Errorf("a write at the end: %v", err)
					}
					return
				}
				names[i] = append(names[i], name)
			}
		})
	}
	time.Sleep(after)
	cancel()
	<-ended
	writers.Wait()
	stored := map[string]bool{}
	if store != nil {
		if err := store.Load(t.Context(), func(key string, value []byte) error {
			stored[key] = value != nil
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range names {
		accepted += len(of)
		for _, name := range of {
			id := codec.ManifestWork.ResourceID("hub", "cluster1", name)
			if !published[name] && !stored["work/cluster1/"+id] {
				lost = append(lost, name)
			}
		}
	}
	return lost, accepted
}

// hangingStore blocks in Apply until letGo is closed, even after the context has ended.
type hangingStore struct {
	*work.MemoryStore
	hangs   atomic.Bool
	under   atomic.Int32 // calls in progress
	most    atomic.Int32
	letGo   chan struct{}
	entered chan struct{} // has a token when Apply was called
}

func (s *hangingStore) Apply(ctx context.Context, changes []work.Change) error {
	if s.hangs.Load() {
		s.most.Store(max(s.most.Load(), s.under.Add(1)))
		defer s.under.Add(-1)
		select {
		case s.entered <- struct{}{}:
		default:
		}
		<-s.letGo
	}
	return s.MemoryStore.Apply(ctx, changes)
}

// TestWriteReturnsWhenContextEnds: a write returns when its context ends, even if it has begun to
// write to a Store that hangs. The error reports that the change is not stored yet, and the change
// is stored once the Store answers.
func TestWriteReturnsWhenContextEnds(t *testing.T) {
	inScene(t, func(s *scene) {
		store := &hangingStore{MemoryStore: work.NewMemoryStore(), letGo: make(chan struct{}),
			entered: make(chan struct{}, 1)}
		h, a := s.source(work.SourceOptions{Store: store}), s.agent(work.AgentOptions{})
		s.settle()
		h.create("cluster1", newWork("old", "1"))
		s.settle()
		store.hangs.Store(true)
		writes := map[string]func(context.Context) error{
			"create": func(ctx context.Context) error {
				_, err := h.works("cluster1").Create(ctx, newWork("new", "1"), metav1.CreateOptions{})
				return err
			},
			"delete": func(ctx context.Context) error {
				return h.works("cluster1").Delete(ctx, "old", metav1.DeleteOptions{})
			},
			"inventory": h.InventoryComplete,
		}
		var group sync.WaitGroup
		for name, write := range writes {
			for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
				group.Go(func() {
					began := time.Now()
					ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
					defer cancel()
					if errors.Is(cause, context.Canceled) {
						ctx, cancel = context.WithCancel(s.t.Context())
						time.AfterFunc(time.Second, cancel)
					}
					err := write(ctx)
					if took := time.Since(began); took > time.Second+50*time.Millisecond {
						t.Errorf("%s: the write returned %v after its context ended", name, took-time.Second)
					}
					var status *apierrors.StatusError
					if apierrors.IsAlreadyExists(err) || err == nil && name == "delete" {
						return // the other write has made the change
					}
					if !errors.Is(err, cause) || !apierrors.IsTimeout(err) || !errors.As(err, &status) ||
						!strings.Contains(err.Error(), "made in memory but is not stored yet") {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		group.Wait()
		store.hangs.Store(false)
		close(store.letGo)
		s.settle()
		if most := store.most.Load(); most != 1 {
			t.Errorf("%d writes to the store at a time, want 1", most)
		}
		a.get("new")
		if _, err := h.works("cluster1").Get(s.t.Context(), "old", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the deletion is lost: %v", err)
		}
	})
}

// TestRepeatedWriteWaitsForStore: a controller repeats a write after a Timeout. The repetition
// changes nothing, but it must not succeed while the first change is not stored.
func TestRepeatedWriteWaitsForStore(t *testing.T) {
	newStore := func() *hangingStore {
		return &hangingStore{MemoryStore: work.NewMemoryStore(), letGo: make(chan struct{}), entered: make(chan struct{}, 1)}
	}
	inScene(t, func(s *scene) {
		ofSource, ofAgent := newStore(), newStore()
		h, a := s.source(work.SourceOptions{Store: ofSource}), s.agent(work.AgentOptions{Store: ofAgent})
		h.create("cluster1", newWork("app", "1"))
		s.settle()
		ofSource.hangs.Store(true)
		ofAgent.hangs.Store(true)
		label := []byte(`{"metadata":{"labels":{"tier":"gold"}}}`)
		for name, works := range map[string]worktyped.ManifestWorkInterface{"source": h.works("cluster1"),
			"agent": a.works()} {
			for i := range 3 {
				ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
				if _, err := works.Patch(ctx, "app", types.MergePatchType, label, metav1.PatchOptions{}); !apierrors.IsTimeout(
					err) {
					t.Errorf("%s, patch %d: %v, want a Timeout", name, i, err)
				}
				cancel()
			}
		}
		close(ofSource.letGo)
		close(ofAgent.letGo)
		s.settle()
		for name, works := range map[string]worktyped.ManifestWorkInterface{"source": h.works("cluster1"),
			"agent": a.works()} {
			if _, err := works.Patch(s.t.Context(), "app", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
				t.Errorf("%s, after the stores answered: %v", name, err)
			}
		}
	})
}

// TestStoppedSource: calls of a stopped source have no effect and return an error, with and without
// a Store.
func TestStoppedSource(t *testing.T) {
	for name, store := range map[string]work.Store{"in memory": nil, "with a store": work.NewMemoryStore()} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{Store: store})
				s.settle()
				h.create("cluster1", newWork("app", "1"))
				h.delete("cluster1", "app")
				h.kill()
				for name, call := range map[string]func() error{
					"InventoryComplete": func() error { return h.InventoryComplete(s.t.Context()) },
					"Forget":            func() error { return h.Forget(s.t.Context(), "cluster1") },
					"Forget, unknown":   func() error { return h.Forget(s.t.Context(), "cluster2") },
					"Abandon":           func() error { return h.Abandon(s.t.Context(), "cluster1", "app") },
					"Create": func() error {
						_, err := h.works("cluster1").Create(s.t.Context(), newWork("late", "1"), metav1.CreateOptions{})
						return err
					},
				} {
					if err := call(); !apierrors.IsServiceUnavailable(err) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if h.get("cluster1", "app").DeletionTimestamp == nil {
					t.Error("the work is not as it was")
				}
			})
		})
	}
}

// TestStopWhileStoreHangs: when the Store hangs, Start returns in a bounded time, the writes in
// progress fail, and the log names the changes that are not stored.
func TestStopWhileStoreHangs(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		drain        time.Duration
		want         time.Duration
	}{
		{"default", "5 s more than the outbox", 0, work.DefaultDrainTimeout + 5*time.Second},
		{"long", "5 s more than the outbox", 10 * time.Second, 15 * time.Second},
		{"negative", "a negative value means no time", -1, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				store := newFaultyStore()
				source, err := work.NewSource(s.bus.Transport(),
					work.SourceOptions{SourceID: "hub", Store: store, DrainTimeout: tc.drain})
				if err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
				ctx, stop := context.WithCancel(klog.NewContext(s.t.Context(), logger))
				ended := make(chan error, 1)
				go func() { ended <- source.Start(ctx) }()
				s.settle()
				store.stall() // until the end of the test
				written := make(chan error, 1)
				go func() {
					_, err := source.Clientset().WorkV1().ManifestWorks("cluster1").Create(s.t.Context(), newWork("app", "1"),
						metav1.CreateOptions{})
					written <- err
				}()
				synctest.Wait()
				began := time.Now()
				stop()
				if err := <-ended; err != nil {
					t.Errorf("Start: %v", err)
				}
				if took := time.Since(began); took > tc.want {
					t.Errorf("Start ended after %v, want %v: %s", took, tc.want, tc.reason)
				}
				if err := <-written; err == nil || !strings.Contains(err.Error(), "not stored") {
					t.Errorf("the write under way: %v", err)
				}
				if !strings.Contains(log.String(), "Stopped with changes that are not stored") ||
					!strings.Contains(log.String(), "records=") {
					t.Errorf("the log: %s", log.String())
				}
			})
		})
	}
}

// TestStoppedClientRejectsWrites: a stopped source or agent rejects writes, because it would not
// deliver them.
func TestStoppedClientRejectsWrites(t *testing.T) {
	type client = worktyped.ManifestWorkInterface
	tests := []struct {
		name  string
		agent bool
		write func(context.Context, client, *workv1.ManifestWork) error
	}{
		{"create", false, func(ctx context.Context, c client, _ *workv1.ManifestWork) error {
			return second(c.Create(ctx, newWork("new", "1"), metav1.CreateOptions{}))
		}},
		{"update", false, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			w.Spec = newWork("app", "2").Spec
			return second(c.Update(ctx, w, metav1.UpdateOptions{}))
		}},
		{"delete", false, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			return c.Delete(ctx, w.Name, metav1.DeleteOptions{})
		}},
		{"finalizers", true, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			w.Finalizers = []string{"example.com/x"}
			return second(c.Update(ctx, w, metav1.UpdateOptions{}))
		}},
		{"status", true, func(ctx context.Context, c client, w *workv1.ManifestWork) error {
			w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "R",
				LastTransitionTime: metav1.Now()}}
			return second(c.UpdateStatus(ctx, w, metav1.UpdateOptions{}))
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				h := s.source(work.SourceOptions{})
				a := s.agent(work.AgentOptions{})
				h.create("cluster1", newWork("app", "1"))
				s.settle()
				h.kill()
				a.kill()
				c, w := h.works("cluster1"), h.get("cluster1", "app")
				if tc.agent {
					c, w = a.works(), a.get("app")
				}
				if err := tc.write(t.Context(), c, w); !apierrors.IsServiceUnavailable(err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestWaitingListEndsWithAgent: a list that waits for the initial sync returns an error when the
// agent stops.
func TestWaitingListEndsWithAgent(t *testing.T) {
	inScene(t, func(s *scene) {
		s.bus.Disconnect()
		a := s.agent(work.AgentOptions{})
		s.settle()
		ended := make(chan error, 1)
		go func() {
			_, err := a.works().List(context.WithoutCancel(s.t.Context()), metav1.ListOptions{})
			ended <- err
		}()
		s.settle()
		a.kill()
		synctest.Wait()
		select {
		case err := <-ended:
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("the list waits for an agent that has stopped")
		}
	})
}
