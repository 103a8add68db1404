// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// replicaOf starts a replica of the source "hub".
func (s *scene) replicaOf(store work.SharedStore) *hub {
	return s.source(work.SourceOptions{SharedGroup: "hubs", Store: store})
}

// sameWorks checks that two replicas show the same works with the same resourceVersions.
func sameWorks(t *testing.T, a, b *hub) {
	t.Helper()
	if diff := cmp.Diff(a.list(""), b.list(""), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("two replicas show different works:\n%s", diff)
	}
}

// TestReplicas: all replicas show the effects of an event, whichever replica receives it. When the
// leader ends, another replica continues.
func TestReplicas(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		first, second := s.replicaOf(store), s.replicaOf(store)
		a := s.agent(work.AgentOptions{})
		s.settle()
		for i := range 10 {
			first.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
		}
		s.settle()
		for i := range 10 {
			a.setFinalizers(fmt.Sprintf("w%d", i), workv1.ManifestWorkFinalizer)
			a.report(fmt.Sprintf("w%d", i), "done")
		}
		first.delete("cluster1", "w9")
		s.settle()
		a.setFinalizers("w9")
		s.settle()
		sameWorks(t, first, second)
		if items := second.list("cluster1").Items; len(items) != 9 || applied(&items[0]) != "done" {
			t.Errorf("the second shows %d works, the first of them %v", len(items), items)
		}

		first.kill()
		a.report("w0", "no leader") // waits in the store until a replica leads
		s.settle()
		if got := applied(second.get("cluster1", "w0")); got != "done" {
			t.Errorf("a replica that does not write made %q of an event", got)
		}
		second.setValue("cluster1", "w1", "2")
		s.settle()
		s.settle()
		if got := applied(second.get("cluster1", "w0")); got != "no leader" {
			t.Errorf("the new writer shows the status %q", got)
		}
		if got := valueOf(t, a.get("w1")); got != "2" {
			t.Errorf("the agent has %q", got)
		}
		third := s.replicaOf(store)
		s.settle()
		sameWorks(t, second, third)
	})
}

// TestReplicaTakesOver: leadership moves between replicas without a loss, and an informer on any
// replica receives all events in order.
func TestReplicaTakesOver(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		replicas := []*hub{s.replicaOf(store), s.replicaOf(store), s.replicaOf(store)}
		var followers []*replicaWatch
		for i, r := range replicas {
			followers = append(followers, followWatch(s.t.Context(), t, fmt.Sprintf("replica %d", i), r.works("").Watch))
		}
		a := s.agent(work.AgentOptions{})
		s.settle()
		random := rand.New(rand.NewPCG(3, 4))
		for step := range 200 {
			r := replicas[random.IntN(len(replicas))]
			name := fmt.Sprintf("w%d", random.IntN(6))
			if err := changeOne(s.t.Context(), r.works("cluster1"), name, fmt.Sprint(step), random.IntN(4) == 0); err != nil {
				t.Fatal(err)
			}
			if random.IntN(5) == 0 {
				s.settle()
				a.applyAll()
			}
		}
		s.settle()
		a.applyAll()
		s.settle()
		sameWorks(t, replicas[0], replicas[1])
		sameWorks(t, replicas[0], replicas[2])
		for _, w := range replicas[0].list("cluster1").Items {
			if w.DeletionTimestamp == nil && applied(&w) != valueOf(t, &w) {
				t.Errorf("%s has the value %s and the status %s", w.Name, valueOf(t, &w), applied(&w))
			}
		}
		for i, f := range followers {
			f.mu.Lock()
			have := len(f.have)
			f.mu.Unlock()
			if want := len(replicas[i].list("").Items); have != want {
				t.Errorf("the watch of replica %d has %d works, want %d", i, have, want)
			}
		}
	})
}

// changeOne creates, updates or deletes a work on a replica that may lag. It does nothing if the
// write fails because the replica lags.
func changeOne(ctx context.Context, works worktyped.ManifestWorkInterface, name, value string, remove bool) error {
	obj, err := works.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = works.Create(ctx, newWork(name, value), metav1.CreateOptions{})
	case err != nil || obj.DeletionTimestamp != nil:
	case remove:
		err = works.Delete(ctx, name, metav1.DeleteOptions{})
	default:
		obj.Spec = newWork(name, value).Spec
		_, err = works.Update(ctx, obj, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsServiceUnavailable(err) {
		return nil
	}
	return err
}

// applyAll acts as a work controller: it reports the values of works, and removes the finalizers of
// deleted works.
func (a *spoke) applyAll() {
	a.t.Helper()
	for _, name := range a.names() {
		if w := a.get(name); w.DeletionTimestamp == nil {
			a.report(name, valueOf(a.t, w))
		} else {
			a.setFinalizers(name)
		}
	}
}

// TestLead: a replica with nothing to write acquires leadership when Lead is called.
func TestLead(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		first := s.replicaOf(store)
		a := s.agent(work.AgentOptions{})
		s.settle()
		first.create("cluster1", newWork("app", "1"))
		s.settle()
		first.kill()
		second := s.replicaOf(store)
		a.report("app", "done")
		s.settle()
		if got := applied(second.get("cluster1", "app")); got != "" {
			t.Errorf("a replica that does not lead made %q of an event", got)
		}
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		if got := applied(second.get("cluster1", "app")); got != "done" {
			t.Errorf("the status is %q", got)
		}
	})
}

// TestQueuedEventsAreBounded: the events that wait for a leader are bounded. The next leader
// requests the dropped events.
func TestQueuedEventsAreBounded(t *testing.T) {
	inScene(t, func(s *scene) {
		store := work.NewMemoryStore()
		first := s.replicaOf(store)
		a := s.agent(work.AgentOptions{})
		s.settle()
		for i := range 20 {
			first.create("cluster1", newWork(fmt.Sprintf("w%d", i), "1"))
		}
		s.settle()
		first.kill()
		second := s.replicaOf(store)
		const limit = 100 << 10
		work.SetMaxInbox(second.Source, limit)
		s.settle()
		for round := range 10 {
			for i := range 20 {
				a.report(fmt.Sprintf("w%d", i), fmt.Sprint(round))
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		size := 0
		if err := store.Load(s.t.Context(), func(key string, value []byte) error {
			if strings.HasPrefix(key, "inbox/") {
				size += len(value)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if size < limit/2 || size > limit {
			t.Errorf("events of %d bytes wait, want about the limit of %d", size, limit)
		}
		if err := second.Lead(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
		for _, w := range second.list("cluster1").Items {
			if applied(&w) != "9" {
				t.Errorf("%s has the status %s", w.Name, applied(&w))
			}
		}
	})
}

func TestReplicaOptions(t *testing.T) {
	bus := memory.New()
	for name, c := range map[string]struct {
		options work.SourceOptions
		want    string
	}{
		"no store": {work.SourceOptions{SourceID: "hub", SharedGroup: "hubs"}, "needs a Store"},
		"own store": {work.SourceOptions{SourceID: "hub", SharedGroup: "hubs",
			Store: ownStore{work.NewMemoryStore()}}, "SharedStore"},
		"group of two levels": {work.SourceOptions{SourceID: "hub", SharedGroup: "a/b", Store: work.NewMemoryStore()},
			"SourceOptions.SharedGroup"},
	} {
		if _, err := work.NewSource(bus.Transport(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	s, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub", SharedGroup: "hubs",
		Store: work.NewMemoryStore()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Clientset().WorkV1().ManifestWorks("cluster1").Create(t.Context(), newWork("app", "1"),
		metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a write before Start: %v", err)
	}
}

// ownStore is a store without the method Follow.
type ownStore struct{ work.Store }

// replicaWatch is the client of a watch. It checks the order of events and stores the resulting
// state.
type replicaWatch struct {
	mu      sync.Mutex
	have    map[string]string // resourceVersion by namespace and name
	highest uint64
}

func followWatch(
	ctx context.Context, t *testing.T, who string, start func(context.Context, metav1.ListOptions) (watch.Interface,
		error),
) *replicaWatch {
	w, err := start(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &replicaWatch{have: map[string]string{}}
	go func() {
		for {
			e, more := <-w.ResultChan()
			if !more {
				return
			}
			if e.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				c.have, c.highest = map[string]string{}, 0 // the client lists again
				if w, err = start(ctx, metav1.ListOptions{}); err != nil {
					return // the replica has ended
				}
				continue
			}
			obj, ok := e.Object.(*workv1.ManifestWork)
			if !ok {
				t.Errorf("the watch of %s got %v", who, e)
				continue
			}
			if err := c.take(e.Type, obj); err != nil {
				t.Errorf("the watch of %s: %v", who, err)
			}
		}
	}()
	return c
}

func (c *replicaWatch) take(kind watch.EventType, obj *workv1.ManifestWork) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	key := obj.Namespace + "/" + obj.Name
	_, had := c.have[key]
	switch {
	case kind != watch.Added && version <= c.highest:
		return fmt.Errorf("%s of %s has version %d after %d", kind, key, version, c.highest)
	case (kind == watch.Added) == had:
		return fmt.Errorf("%s of %s, there before: %t", kind, key, had)
	}
	c.highest = max(c.highest, version)
	c.have[key] = obj.ResourceVersion
	if kind == watch.Deleted {
		delete(c.have, key)
	}
	return nil
}
