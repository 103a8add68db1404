// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
	"github.com/spokewire/sdk-go/rsync/store/storetest"
)

// observers returns a crew of engines that heal.
func observers(t *testing.T, engines int) *crew {
	t.Helper()
	c := newCrew(t, 0)
	for range engines {
		c.joinObserver()
	}
	time.Sleep(time.Second)
	return c
}

func (c *crew) joinObserver() {
	c.t.Helper()
	view := storetest.NewFaults(c.memory, nil)
	_, stop := startEngine(c.t, view, c.clusters,
		rsync.Options{Name: fmt.Sprint("engine", len(c.views)), Observe: rsync.ObserveHeal})
	c.t.Cleanup(stop)
	c.views, c.stops = append(c.views, view), append(c.stops, stop)
}

// instantiated creates and instantiates contexts. Each context has an object on its own cluster,
// and an object on a common cluster.
func (c *crew) instantiated(contexts int) {
	c.t.Helper()
	for i := range contexts {
		c.create(fmt.Sprint("id", i), fmt.Sprintf("web@c0 x%d=1; web@c%d y%d=1", i, 1+i, i))
		c.done(c.engine.Instantiate(c.t.Context(), fmt.Sprint("id", i)))
	}
	time.Sleep(time.Minute)
}

// TestObservationCostsTheSameWithManyEngines: 1 and 16 engines make about the same number of calls
// to the store in an hour. This applies without a change, and with healed drift.
func TestObservationCostsTheSameWithManyEngines(t *testing.T) {
	const contexts = 40
	var one [2]storetest.Counts
	for _, engines := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			c := observers(t, engines)
			c.instantiated(contexts)
			var got [2]storetest.Counts
			before := c.counts()
			time.Sleep(time.Hour)
			got[0] = c.counts().Minus(before)
			before = c.counts()
			for i := range contexts {
				c.clusters.Cluster("edge", fmt.Sprint("c", 1+i)).SetObject(object("ConfigMap", fmt.Sprint("y", i)), nil)
			}
			time.Sleep(time.Hour)
			got[1] = c.counts().Minus(before)
			for i := range contexts {
				c.shows(fmt.Sprint("c", 1+i), fmt.Sprintf("y%d=1", i))
			}
			t.Logf("%d engines: an hour without a change %+v, with drift %+v", engines, got[0], got[1])
			if engines == 1 {
				one = got
			}
			if got[0].Txns != 0 {
				t.Errorf("%d transactions without a change", got[0].Txns)
			}
			for i := range got {
				for what, n := range map[string][2]int{
					"reads": {got[i].Gets + got[i].Ranges, one[i].Gets + one[i].Ranges}, "keys": {got[i].Keys,
						one[i].Keys}, "transactions": {got[i].Txns, one[i].Txns},
				} {
					if n[0]*10 > n[1]*11 || n[0]*10 < n[1]*9 {
						t.Errorf("%d engines: %d %s, and one engine %d", engines, n[0], what, n[1])
					}
				}
			}
		})
	}
}

// TestObserversComeAndGo: exactly one engine observes each context, also after engines join, end or
// crash.
func TestObserversComeAndGo(t *testing.T) {
	const contexts = 20
	synctest.Test(t, func(t *testing.T) {
		c := observers(t, 2)
		c.instantiated(contexts)
		check := func(what string) {
			t.Helper()
			time.Sleep(30 * time.Second)
			shared := c.clusters.Cluster("edge", "c0")
			gets := shared.Count(fake.VerbGet)
			time.Sleep(100 * time.Minute)
			if n := shared.Count(fake.VerbGet) - gets; n < 9*contexts || n > 12*contexts {
				t.Errorf("%s: %d reads in ten intervals of %d contexts", what, n, contexts)
			}
			for i := range contexts {
				c.clusters.Cluster("edge", fmt.Sprint("c", 1+i)).SetObject(object("ConfigMap", fmt.Sprint("y", i)), nil)
			}
			time.Sleep(time.Minute)
			for i := range contexts {
				c.shows(fmt.Sprint("c", 1+i), fmt.Sprintf("y%d=1", i))
			}
		}
		check("two engines")
		c.joinObserver()
		check("a third one")
		c.stops[0]()
		check("without the first one")
		c.views[1].Crash()
		c.stops[1]()
		check("after a crash")
	})
}

// TestCrashWhileHealing: an engine crashes before or after each of its writes, or the write fails
// or loses its answer. The next engine continues, and a single Heal heals the drift.
func TestCrashWhileHealing(t *testing.T) {
	for _, verdict := range []storetest.Verdict{storetest.VerdictCrashBefore, storetest.VerdictCrashAfter,
		storetest.VerdictFailBefore, storetest.VerdictFailAfter} {
		for at := 1; at <= 8; at++ {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{t: t, memory: memstore.New(memstore.Options{}), clusters: fake.New()}
				var stop func()
				s.engine, stop = startEngine(t, s.memory, s.clusters, rsync.Options{Name: "before"})
				s.create("a", "web@c1 x=1 y=1; web@c2 x=1")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				stop()
				s.clusters.Cluster("edge", "c1").SetObject(object("ConfigMap", "y"), nil)
				faults := storetest.NewFaults(s.memory, func(n int, _ []store.Op) storetest.Verdict {
					if n == at {
						return verdict
					}
					return storetest.VerdictPass
				})
				_, stopFirst := startEngine(t, faults, s.clusters, rsync.Options{Observe: rsync.ObserveHeal})
				time.Sleep(5 * time.Second)
				stopFirst()
				_, stopSecond := startEngine(t, s.memory, s.clusters, rsync.Options{Observe: rsync.ObserveHeal})
				defer stopSecond()
				time.Sleep(30 * time.Minute)
				s.shows("c1", "x=1 y=1")
				s.observes("a", "c1", "2/2 0:")
				s.observes("a", "c2", "1/1 0:")
				if n := s.events("a", rsync.Heal); n != 1 {
					t.Errorf("verdict %d at write %d: %d heals", verdict, at, n)
				}
				if o := s.observation("a", "c1"); o.Heals != 1 {
					t.Errorf("verdict %d at write %d: %+v", verdict, at, o)
				}
			})
		}
	}
}

// TestObservedContextsHaveNoGoroutines: the number of goroutines grows with the watched clusters,
// not with the contexts.
func TestObservedContextsHaveNoGoroutines(t *testing.T) {
	count := func(contexts int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveDrift})
			for i := range contexts {
				s.create(fmt.Sprint("id", i), fmt.Sprintf("web@c1 x%d=1; web@c2 x%d=1", i, i))
				s.done(s.engine.Instantiate(t.Context(), fmt.Sprint("id", i)))
			}
			time.Sleep(time.Hour)
			n = runtime.NumGoroutine()
			s.observes(fmt.Sprint("id", contexts-1), "c2", "1/1 0:")
		})
		return n
	}
	one, many := count(1), count(200)
	t.Logf("%d goroutines with one context, %d with 200", one, many)
	if many > one+5 {
		t.Errorf("%d goroutines with one context, %d with 200", one, many)
	}
}

// TestObservationOfBusyCluster: a context is read at most once per second, regardless of the rate
// of changes. It is read less often if a read takes long.
func TestObservationOfBusyCluster(t *testing.T) {
	for latency, limit := range map[time.Duration]int{0: 62, time.Second: 16} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil, rsync.Options{Observe: rsync.ObserveStatus})
			c := s.clusters.Cluster("edge", "c1")
			s.create("a", "web@c1 x=1")
			s.done(s.engine.Instantiate(t.Context(), "a"))
			c.SetLatency(latency)
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			gets := c.Count(fake.VerbGet)
			for ready := false; ctx.Err() == nil; ready = !ready {
				c.SetReady(object("ConfigMap", "x"), ready, false)
				time.Sleep(50 * time.Millisecond)
			}
			if n := c.Count(fake.VerbGet) - gets; n > limit || n < limit-3 {
				t.Errorf("latency %s: %d reads in a minute, want at most %d", latency, n, limit)
			}
		})
	}
}

// slowWatches are clusters whose watches end a second after their context.
type slowWatches struct{ *fake.Clusters }

type slowWatch struct {
	connector.Connector
	connector.Differ
}

func (s slowWatches) Connector(ctx context.Context, provider, cluster string) (connector.Connector, error) {
	c, err := s.Clusters.Connector(ctx, provider, cluster)
	if err != nil {
		return nil, err
	}
	return slowWatch{c, c.(connector.Differ)}, nil
}

func (s slowWatch) WatchStatus(ctx context.Context, changed func()) error {
	err := s.Connector.(connector.StatusWatcher).WatchStatus(ctx, changed)
	time.Sleep(time.Second)
	return err
}

// TestWatchThatEndsSlowly: an event ends the watch of its cluster. The watch for the observation
// that follows starts although the previous one has not returned.
func TestWatchThatEndsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := fake.New()
		engine, stop := startEngineWith(t, memstore.New(memstore.Options{}), slowWatches{clusters},
			rsync.Options{Observe: rsync.ObserveHeal})
		t.Cleanup(stop)
		s := &scene{t: t, engine: engine, clusters: clusters}
		s.create("a", "web@c1 x=1")
		s.done(engine.Instantiate(t.Context(), "a"))
		s.done(engine.Instantiate(t.Context(), "a"))
		time.Sleep(3 * time.Second)
		clusters.Cluster("edge", "c1").SetObject(object("ConfigMap", "x"), nil)
		time.Sleep(5 * time.Second)
		s.shows("c1", "x=1")
	})
}
