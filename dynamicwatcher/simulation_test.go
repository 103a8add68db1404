// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/testing/fakeapi"
)

// The simulations run a watcher against a server that fails in every way it can, while objects,
// kinds and watches change. After the faults have ended, every watcher must have seen the last
// state of all its objects.
//
//	go test ./dynamicwatcher -run Simulation -dynamicwatcher.seeds 10000
//	go test ./dynamicwatcher -run Simulation -dynamicwatcher.seed 17 -v   one run again

var (
	replay = flag.Uint64("dynamicwatcher.seed", 0,
		"the first seed of the simulations: the only one, unless -dynamicwatcher.seeds is set")
	seeds = flag.Uint64("dynamicwatcher.seeds", 0, "how many seeds TestSimulation runs, 200 by default")
)

func TestSimulation(t *testing.T) {
	first, n := max(*replay, 1), *seeds
	switch {
	case n == 0 && *replay != 0:
		n = 1
	case n == 0:
		n = 200
	}
	var next, events, shared atomic.Uint64
	var failed atomic.Bool
	next.Store(first)
	began := time.Now()
	t.Run("on", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprintf("processor=%d", worker), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < first+n && !failed.Load(); seed = next.Add(1) - 1 {
					synctest.Test(t, func(t *testing.T) {
						t.Cleanup(func() { failed.Store(failed.Load() || t.Failed()) })
						s := newSimulation(t, seed)
						s.run()
						events.Add(s.reconciles)
						shared.Add(s.shared)
					})
				}
			})
		}
	})
	t.Logf("%.0f seeds a second, %d reconciles, %d objects on shared watches", float64(n)/time.Since(began).Seconds(),
		events.Load(), shared.Load())
}

// simulation is one run with one seed.
type simulation struct {
	*fixture
	seed     uint64
	rand     *rand.Rand
	universe []dynamicwatcher.ObjectIdentifier // objects that can be watched
	watchers []dynamicwatcher.ObjectIdentifier
	storm    atomic.Bool
	changing chan struct{} // serializes changes of watches, which may wait for the server

	mu         sync.Mutex
	random     *rand.Rand // for faults and reconciles: the seed does not determine their order
	watches    map[dynamicwatcher.ObjectIdentifier]map[dynamicwatcher.ObjectIdentifier]bool
	seen       map[dynamicwatcher.ObjectIdentifier]map[dynamicwatcher.ObjectIdentifier]string
	running    map[dynamicwatcher.ObjectIdentifier]bool
	reconciles uint64
	shared     uint64 // times that an object was seen to share a watch
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		changing: make(chan struct{}, 1),
		seed:     seed, rand: rand.New(rand.NewPCG(seed, 1)), random: rand.New(rand.NewPCG(seed, 2)),
		watches: map[dynamicwatcher.ObjectIdentifier]map[dynamicwatcher.ObjectIdentifier]bool{},
		seen:    map[dynamicwatcher.ObjectIdentifier]map[dynamicwatcher.ObjectIdentifier]string{},
		running: map[dynamicwatcher.ObjectIdentifier]bool{},
	}
	s.fixture = &fixture{t: t, api: fakeapi.New(), r: &recorder{do: s.reconcile}}
	s.api.Plain, s.api.PageSize = s.rand.IntN(4) == 0, s.rand.IntN(3)
	options := dynamicwatcher.Options{
		MissingKind: dynamicwatcher.Wait, EnableCache: s.rand.IntN(3) == 0, MaxConcurrentReconciles: 1 + s.rand.IntN(3),
		Reconnect: dynamicwatcher.Reconnect(s.rand.IntN(2)),
	}
	if s.rand.IntN(3) == 0 {
		options.MinInterval = time.Duration(s.rand.IntN(500)) * time.Millisecond
		options.BatchWindow = time.Duration(s.rand.IntN(100)) * time.Millisecond
	}
	if s.rand.IntN(2) == 0 {
		options.EnableCache, options.Consolidate = false, &dynamicwatcher.ConsolidateOptions{MinObjects: 1 + s.rand.IntN(3),
			MaxRatio: 1 + s.rand.IntN(4)}
	}
	w, err := dynamicwatcher.NewForConfig(s.api.Config(), s.r, &options)
	s.must(err)
	s.DynamicWatcher = w
	for _, name := range []string{"p", "q", "r", "s"} {
		s.watchers = append(s.watchers, policy(name))
	}
	s.universe = []dynamicwatcher.ObjectIdentifier{
		secretA, secretB, id(fakeapi.Secret, "other", "a"), id(fakeapi.ConfigMap, "ns", "a"), widgetA, id(widget, "ns", "b"),
		id(fakeapi.Secret, "ns", "c"), id(fakeapi.Secret, "ns", "d"),
		matching(fakeapi.Secret, "ns", "app=x"), matching(fakeapi.Secret, "", "app"), matching(widget, "ns", "app=x"),
	}
	return s
}

// run runs the storm of faults, waits until all is calm, and checks the result.
func (s *simulation) run() {
	defer s.api.Close()
	s.storm.Store(true)
	s.api.Hook(s.fault)
	s.api.CreateCRD(widget, "widgets", true, 0)
	for _, o := range s.universe[:4] {
		s.put(o)
	}
	early := s.rand.IntN(10) // steps before Start
	for step := range 100 {
		if step == early {
			s.start()
		}
		s.step()
		for _, status := range s.Status() {
			if status.Consolidated {
				s.shared++
			}
		}
		if s.rand.IntN(2) == 0 {
			s.after(time.Duration(s.rand.IntN(1+1<<s.rand.IntN(12))) * time.Millisecond)
		}
	}
	s.storm.Store(false)
	s.api.Hook(nil)
	s.api.Start()
	s.api.Disconnect() // ends hanging requests
	s.after(3 * time.Minute)
	s.judge()
	s.stop()
}

// step makes one random change.
func (s *simulation) step() {
	o := s.universe[s.rand.IntN(8)]
	app := []string{"app", []string{"x", "y"}[s.rand.IntN(2)]}
	switch n := s.rand.IntN(100); {
	case n < 35:
		if o.Kind != widget.Kind || s.api.Get(fakeapi.CRD, "", "widgets.example.com") != nil {
			s.put(o, app[:2*s.rand.IntN(2)]...)
		}
	case n < 50:
		s.remove(o)
	case n < 75:
		s.change(s.rand, s.watchers[s.rand.IntN(len(s.watchers))])
	case n < 80:
		s.api.DeleteCRD(widget, "widgets")
	case n < 85:
		s.api.CreateCRD(widget, "widgets", true, time.Duration(s.rand.IntN(100))*time.Millisecond)
	case n < 89:
		s.api.Disconnect()
	case n < 92:
		s.api.Compact()
	case n < 94:
		s.api.Stop()
	case n < 98:
		s.api.Start()
	default:
		s.api.Bookmark()
	}
}

// change changes the watched objects of a watcher.
func (s *simulation) change(random *rand.Rand, watcher dynamicwatcher.ObjectIdentifier) {
	s.changing <- struct{}{}
	defer func() { <-s.changing }()
	switch random.IntN(8) {
	case 0:
		began := time.Now()
		s.must(s.RemoveWatcher(watcher))
		if d := time.Since(began); d > 0 {
			s.t.Errorf("seed %d: a removal took %v", s.seed, d)
		}
		s.replaced(watcher, true)
	case 1:
		o := s.universe[random.IntN(len(s.universe))]
		if s.AddWatcher(watcher, o) == nil {
			s.replaced(watcher, false, o)
		}
	default:
		var set []dynamicwatcher.ObjectIdentifier
		for _, i := range random.Perm(len(s.universe))[:random.IntN(7)] {
			set = append(set, s.universe[i])
		}
		if s.AddOrUpdateWatcher(watcher, set...) == nil {
			s.replaced(watcher, true, set...)
		}
	}
}

// replaced records a change of the watched objects. It drops the states that were seen before an
// object was watched.
func (s *simulation) replaced(
	watcher dynamicwatcher.ObjectIdentifier, all bool, set ...dynamicwatcher.ObjectIdentifier,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, is := s.watches[watcher], map[dynamicwatcher.ObjectIdentifier]bool{}
	if !all {
		is = maps.Clone(was)
		if is == nil {
			is = map[dynamicwatcher.ObjectIdentifier]bool{}
		}
	}
	for _, o := range set {
		is[o] = true
	}
	for o := range s.seen[watcher] {
		if !was[o] {
			delete(s.seen[watcher], o)
		}
	}
	s.watches[watcher] = is
}

// look returns the resource versions of a watched object, or of all objects that a selector
// matches.
func (s *simulation) look(o dynamicwatcher.ObjectIdentifier) string {
	if o.Name != "" {
		if u := s.api.Get(o.GroupVersionKind(), o.Namespace, o.Name); u != nil {
			return u.GetResourceVersion()
		}
		return ""
	}
	selector, err := labels.Parse(o.Selector)
	s.must(err)
	var all []string
	for _, u := range s.api.List(o.GroupVersionKind(), o.Namespace, selector) {
		all = append(all, u.GetResourceVersion())
	}
	return strings.Join(all, ",")
}

// lookAround records the objects that a watcher sees. It needs the mutex.
func (s *simulation) lookAround(watcher dynamicwatcher.ObjectIdentifier) {
	seen := map[dynamicwatcher.ObjectIdentifier]string{}
	for _, o := range s.universe {
		seen[o] = s.look(o)
	}
	s.seen[watcher] = seen
}

// reconcile records all objects. At random it takes long, changes the watched objects, or fails.
func (s *simulation) reconcile(_ context.Context, watcher dynamicwatcher.ObjectIdentifier) (reconcile.Result, error) {
	s.mu.Lock()
	if s.running[watcher] {
		s.t.Errorf("seed %d: two reconciles of %s at once", s.seed, watcher.Name)
	}
	s.running[watcher] = true
	s.reconciles++
	s.lookAround(watcher)
	n, d := s.random.IntN(40), time.Duration(s.random.IntN(30))*time.Millisecond
	mine := rand.New(rand.NewPCG(s.seed, s.random.Uint64()))
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[watcher] = false
	}()
	if n < 10 {
		time.Sleep(d)
	}
	switch {
	case !s.storm.Load():
	case n > 34:
		s.change(mine, watcher)
		time.Sleep(d)
		s.mu.Lock()
		s.lookAround(watcher)
		s.mu.Unlock()
	case n == 0:
		panic("on purpose")
	case n < 3:
		return reconcile.Result{}, errors.New("on purpose")
	case n == 4:
		return reconcile.Result{RequeueAfter: d}, nil
	}
	return reconcile.Result{}, nil
}

// fault returns a random fault for a request.
func (s *simulation) fault(fakeapi.Request) fakeapi.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := fakeapi.Fault{Duplicate: s.random.IntN(10) == 0}
	if s.random.IntN(4) == 0 {
		f.Delay = time.Duration(s.random.IntN(300)) * time.Millisecond
	}
	if s.random.IntN(8) == 0 {
		f.Lag = time.Duration(s.random.IntN(1000)) * time.Millisecond
	}
	switch n := s.random.IntN(30); {
	case n < 8:
		f.Status = []int{401, 403, 404, 410, 429, 500, 503, 504}[n]
		f.RetryAfter = s.random.IntN(2)
	case n == 8:
		f.Hang = s.random.IntN(4) == 0
	case n == 9:
		f.Abort = true
	case n < 16:
		f.After, f.Ending = s.random.IntN(6), []fakeapi.Ending{fakeapi.Cut, fakeapi.End, fakeapi.Expired}[n%3]
	}
	return f
}

// judge compares the states that the watchers saw with the existing objects.
func (s *simulation) judge() {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	distinct := map[dynamicwatcher.ObjectIdentifier]bool{}
	for watcher, set := range s.watches {
		for o := range set {
			distinct[o] = true
			if now, seen := s.look(o), s.seen[watcher][o]; now != seen {
				s.t.Errorf("seed %d: %s last saw %q of %s, which is %q", s.seed, watcher.Name, seen, o, now)
			}
		}
		if got := s.WatchesOf(watcher); len(got) != len(set) {
			s.t.Errorf("seed %d: %s watches %v, not %v", s.seed, watcher.Name, got, set)
		}
	}
	served, groups := 0, map[dynamicwatcher.ObjectIdentifier]bool{}
	for _, status := range s.Status() {
		switch status.State {
		case dynamicwatcher.StateActive:
			if !status.Consolidated {
				served++
				break
			}
			group := status.Object
			group.Name = ""
			if groups[group] = true; status.ResourceVersion == "" {
				s.t.Errorf("seed %d: the status is %+v", s.seed, status)
			}
		case dynamicwatcher.StatePendingKind:
			if status.Object.Kind != widget.Kind {
				s.t.Errorf("seed %d: the status is %+v", s.seed, status)
			}
		default:
			s.t.Errorf("seed %d: the status is %+v", s.seed, status)
		}
	}
	if n := s.GetWatchCount(); n != len(distinct) {
		s.t.Errorf("seed %d: %d watches for %d objects", s.seed, n, len(distinct))
	}
	served += len(groups)
	if n := s.api.Counts().Streams; n < served || n > served+1 { // the watch on the CRD
		s.t.Errorf("seed %d: %d streams for %d watches", s.seed, n, served)
	}
}
