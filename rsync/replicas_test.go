// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slices"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// crew is a set of engines on one store. Each engine has its own view, which counts its calls.
type crew struct {
	*scene
	views []*storetest.Faults
	stops []func()
}

func newCrew(t *testing.T, engines int) *crew {
	t.Helper()
	c := &crew{scene: &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}}
	var err error
	if c.engine, err = rsync.New(c.memory, c.clusters, rsync.Options{Name: "user"}); err != nil {
		t.Fatal(err)
	}
	for range engines {
		c.join()
	}
	time.Sleep(time.Second)
	return c
}

func (c *crew) join() {
	c.t.Helper()
	view := storetest.NewFaults(c.memory, nil)
	_, stop := startEngine(c.t, view, c.clusters, rsync.Options{Name: fmt.Sprint("engine", len(c.views))})
	c.t.Cleanup(stop)
	c.views, c.stops = append(c.views, view), append(c.stops, stop)
}

// counts returns the number of calls to the store by all engines.
func (c *crew) counts() (sum storetest.Counts) {
	for _, v := range c.views {
		sum = sum.Plus(v.Counts())
	}
	return sum
}

// busy returns the number of engines that have written after the start of their sessions.
func (c *crew) busy() (n int) {
	for _, v := range c.views {
		if v.Writes() > 1 {
			n++
		}
	}
	return n
}

// TestEventCostsTheSameWithManyEngines: with 1 to 16 engines, 200 events need about the same number
// of calls to the store, and of keys that these calls read.
func TestEventCostsTheSameWithManyEngines(t *testing.T) {
	const contexts = 100
	var one storetest.Counts
	for _, engines := range []int{1, 2, 8, 16} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, engines)
			for i := range contexts {
				c.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1; web@c%d y%d=1", i, 2+i, i))
			}
			before := c.counts()
			for i := range contexts {
				c.done(c.engine.Instantiate(t.Context(), fmt.Sprint("id", i)))
				c.done(c.engine.Terminate(t.Context(), fmt.Sprint("id", i)))
			}
			time.Sleep(time.Minute)
			got := c.counts().Minus(before)
			t.Logf("%d engines, %d of them busy, %d events: %+v", engines, c.busy(), 2*contexts, got)
			if engines == 1 {
				one = got
			}
			for what, n := range map[string][2]int{
				"reads": {got.Gets + got.Ranges, one.Gets + one.Ranges}, "keys read": {got.Keys, one.Keys},
				"transactions": {got.Txns, one.Txns},
			} {
				if n[0]*10 > n[1]*11 || n[0]*10 < n[1]*9 {
					t.Errorf("%d engines: %d %s, and one engine %d", engines, n[0], what, n[1])
				}
			}
			if c.busy() < engines*3/4 { // the hash may assign no context to one of 16 engines
				t.Errorf("%d of %d engines are busy", c.busy(), engines)
			}
		})
	}
}

// TestJoinAmongWaitingContexts: an engine joins seven engines with 300 contexts in progress, and
// leaves. It reads one key for each context of its share, but does not claim the contexts. All
// engines together read few keys.
func TestJoinAmongWaitingContexts(t *testing.T) {
	const contexts = 300
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 7)
		c.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		var refs []rsync.EventRef
		for i := range contexts {
			id := fmt.Sprint("id", i)
			c.create(id, fmt.Sprintf("web@c1 x%d=1", i))
			refs = append(refs, c.ref(c.engine.Instantiate(t.Context(), id)))
		}
		time.Sleep(time.Minute)
		before := c.counts()
		c.join()
		time.Sleep(time.Minute)
		joined := c.counts()
		c.stops[7]()
		time.Sleep(time.Minute)
		left := c.counts()
		t.Logf("joined: %+v; left: %+v", joined.Minus(before), left.Minus(joined))
		for what, got := range map[string]storetest.Counts{"joins": joined.Minus(before), "leaves": left.Minus(joined)} {
			// These are the keys of the active records, the engines and the share.
			if got.Gets+got.Ranges > contexts/4 || got.Keys > contexts+contexts/4 || got.Txns > 1 {
				t.Errorf("when an engine %s: %+v", what, got)
			}
		}
		c.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		for _, ref := range refs {
			c.done(ref, nil)
		}
		if n := c.views[7].Writes(); n != 1 {
			t.Errorf("the engine that joined wrote %d times", n)
		}
	})
}

// TestJoinTakesQueuedEvents: contexts have queues of many events. An engine that joins gets its
// share of the contexts when their events in progress have ended. It returns them when it leaves.
func TestJoinTakesQueuedEvents(t *testing.T) {
	const contexts, events = 40, 30
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 1)
		c.clusters.Cluster("edge", "c1").SetDelay(100 * time.Millisecond)
		var refs []rsync.EventRef
		for i := range contexts {
			id := fmt.Sprint("id", i)
			c.create(id, fmt.Sprintf("web@c1 x%d=1", i))
			for range events {
				refs = append(refs, c.ref(c.engine.Instantiate(t.Context(), id)))
			}
		}
		time.Sleep(2 * time.Second)
		c.join()
		time.Sleep(2 * time.Second)
		before := [2]int{c.views[0].Writes(), c.views[1].Writes()}
		time.Sleep(2 * time.Second)
		first, second := c.views[0].Writes()-before[0], c.views[1].Writes()-before[1]
		if first+second == 0 || second*4 < first || first*4 < second {
			t.Errorf("in two seconds the first engine wrote %d times, and the one that joined %d times", first, second)
		}
		c.stops[1]()
		for _, ref := range refs {
			c.done(ref, nil)
		}
		for i := range contexts {
			status, err := c.engine.Status(t.Context(), fmt.Sprint("id", i))
			if err != nil || status.Transitions != 2*events {
				t.Errorf("context %d: %+v, %v", i, status, err)
			}
		}
		t.Logf("in two seconds %d and %d writes", first, second)
	})
}

// lateStore is a store that fails the first transaction that begins an event. It executes this
// transaction just before the next transaction that begins an event.
type lateStore struct {
	store.Store
	mu   sync.Mutex
	late func()
	done bool
}

func (s *lateStore) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(words(ops), "InProgress") {
		switch {
		case s.late == nil:
			s.late = func() {
				result, err := s.Store.Txn(context.WithoutCancel(ctx), compares, ops)
				s.done = err == nil && result.Succeeded
			}
			return store.TxnResult{}, context.DeadlineExceeded
		case !s.done:
			s.late()
		}
	}
	return s.Store.Txn(ctx, compares, ops)
}

// TestClaimArrivesLate: the transaction that begins an event times out, and is executed while the
// engine tries again. The engine detects that it owns the context.
func TestClaimArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		late := &lateStore{Store: r.memory}
		_, stop := startEngine(t, late, r.clusters, rsync.Options{})
		defer stop()
		r.create("a", "web@c1 x=1")
		r.ref(r.user.Instantiate(t.Context(), "a"))
		r.wants("a", "Instantiate Done", rsync.Instantiated)
		if !late.done {
			t.Error("no transaction came late")
		}
	})
}

// blindStore is a store that does not list the live sessions until sees is closed.
type blindStore struct {
	store.Store
	sees chan struct{}
}

func (s *blindStore) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	if prefix == "/rsync/engine/" {
		select {
		case <-s.sees:
		case <-ctx.Done():
			return store.RangeResult{}, ctx.Err()
		}
	}
	return s.Store.Range(ctx, prefix)
}

// TestSessionSeesOwnRecordLast: an engine reads the active contexts before its own session. It
// works on all of them after it has read its session.
func TestSessionSeesOwnRecordLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			r.create(id, "web@c1 "+id+"=1")
			r.ref(r.user.Instantiate(t.Context(), id))
		}
		blind := &blindStore{Store: r.memory, sees: make(chan struct{})}
		_, stop := startEngine(t, blind, r.clusters, rsync.Options{})
		t.Cleanup(stop)
		time.Sleep(time.Minute)
		for _, id := range ids {
			r.state(id, rsync.Created)
		}
		close(blind.sees)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, id := range ids {
			r.state(id, rsync.Instantiated)
		}
	})
}

// TestReplicas: one of three engines is killed, or frozen for longer than its lease. No late write
// of that engine is accepted. The other engines take over its contexts within its lease and a
// second.
func TestReplicas(t *testing.T) {
	const ttl = 3 * time.Second
	for _, how := range []string{"killed", "frozen"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replicas(t, how, ttl) })
		})
	}
}

func replicas(t *testing.T, how string, ttl time.Duration) {
	memory := memstore.New(memstore.Options{})
	clusters := fake.New()
	user, err := rsync.New(memory, clusters, rsync.Options{Name: "user"})
	if err != nil {
		t.Fatal(err)
	}
	var views []*storetest.Faults
	for i := range 3 {
		view := storetest.NewFaults(memory, nil)
		_, stop := startEngine(t, view, clusters, rsync.Options{Name: fmt.Sprint("engine", i), LeaseTTL: ttl})
		t.Cleanup(stop)
		views = append(views, view)
	}
	t.Cleanup(func() {
		for _, v := range views {
			v.Release()
		}
	})
	clusters.Cluster("edge", "c1").SetDelay(700 * time.Millisecond)
	time.Sleep(time.Second) // until all engines have seen each other
	var refs []rsync.EventRef
	for i := range 90 {
		id := fmt.Sprint("id", i)
		if err := user.Create(t.Context(), parse(t, id, fmt.Sprintf("web@c1 x%d=1", i))); err != nil {
			t.Fatal(err)
		}
		ref, err := user.Instantiate(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	time.Sleep(time.Second)
	shares := map[int]int{}
	for i, v := range views {
		shares[i] = len(v.Log())
		if shares[i] < 5 {
			t.Errorf("engine %d has written %d times: the work is not shared", i, shares[i])
		}
	}
	switch how {
	case "killed":
		views[0].Crash()
	case "frozen":
		views[0].Hold()
	}
	began := time.Now()
	for _, ref := range refs {
		if _, err := user.Wait(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	var claims []time.Duration
	for _, v := range views[1:] {
		for _, w := range v.Claims() {
			claims = append(claims, w.At.Sub(began))
		}
	}
	if len(claims) == 0 || slices.Max(claims) > ttl+time.Second {
		t.Errorf("taken over after %v", claims)
	}
	views[0].Release()
	time.Sleep(10 * time.Second)
	late := 0
	for _, w := range views[0].Log() {
		if w.Held {
			late++
			if w.Result.Succeeded && !sessionStart(w.Ops) {
				t.Errorf("a write from before was accepted: %v", w.Ops)
			}
		}
	}
	if how == "frozen" && late == 0 {
		t.Error("nothing was written late, so nothing was shown")
	}
	for i := range refs {
		status, err := user.Status(t.Context(), fmt.Sprint("id", i))
		if err != nil || status.Transitions != 2 || status.State != rsync.Instantiated {
			t.Errorf("context %d: %+v, %v", i, status, err)
		}
	}
	t.Logf("%s: shares %v, %d contexts taken over at last %s later, all done in %s, %d late writes", how, shares,
		len(claims), slices.Max(append(claims, 0)), took, late)
}

func sessionStart(ops []store.Op) bool {
	return len(ops) == 1 && strings.HasPrefix(ops[0].Key, "/rsync/engine/")
}

// TestOwnerEndsDuringScan: an owner ends while another engine checks its contexts, and finds that
// they have an owner. No context stays behind.
func TestOwnerEndsDuringScan(t *testing.T) {
	const contexts, runs = 200, 5
	for range runs {
		synctest.Test(t, func(t *testing.T) {
			r := newRace(t)
			for i := range contexts {
				r.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1", i))
				r.ref(r.user.Instantiate(t.Context(), fmt.Sprint("id", i)))
				record := store.Put(fmt.Sprintf("/context/id%d/state/", i), []byte(`{"state":"Created","owner":"old","version":7}`))
				if _, err := r.memory.Txn(t.Context(), nil, []store.Op{record}); err != nil {
					t.Fatal(err)
				}
			}
			lease, err := r.memory.Grant(t.Context(), 20*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.memory.Txn(t.Context(), nil,
				[]store.Op{store.PutLeased("/rsync/engine/old/", nil, lease)}); err != nil {
				t.Fatal(err)
			}
			slow := storetest.NewFaults(r.memory, nil)
			slow.Delay = time.Millisecond // eight contexts at a time, one millisecond each
			_, stop := startEngine(t, slow, r.clusters, rsync.Options{})
			defer stop()
			time.Sleep(time.Minute)
			for i := range contexts {
				r.state(fmt.Sprint("id", i), rsync.Instantiated)
			}
		})
	}
}
