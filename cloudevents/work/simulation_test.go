// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/codec"
)

// The simulations run the real sources and agents over a broker in memory: random operations of hub controllers and
// work controllers, in bad weather, with processes that crash and restart, and clocks that are set. While a run lasts,
// its watches hold what they are told against what the users did (simulation_watch_test.go). After it the trouble
// ends, and every agent must hold exactly its works and every source the last status of each
// (simulation_judge_test.go).
//
//	go test ./cloudevents/work -run Simulation -work.seeds 100000   as make fuzz does
//	go test ./cloudevents/work -run '^TestSimulation$' -work.seed 17 -v   one run again

var (
	replay = flag.Uint64("work.seed", 0, "the first seed of the simulations: the only one, unless -work.seeds is set")
	seeds  = flag.Uint64("work.seeds", 0, "how many seeds TestSimulation runs, 60 by default; those of other profiles and peers run a quarter")
)

// TestSimulation is about our own sources and agents in the default profile.
func TestSimulation(t *testing.T) {
	simulate(t, 1, func(t *testing.T, seed uint64, count *tally) {
		f := newFleet(t, seed, codec.ManifestWork, count)
		f.run()
		f.judge()
		f.judgeQuiet()
		f.judgeMemory()
	})
}

// TestBundleSimulation is TestSimulation in the profile ManifestBundle, without wrong clocks: nothing there tells a
// clock that stepped back from a message that is late.
func TestBundleSimulation(t *testing.T) {
	simulate(t, 4, func(t *testing.T, seed uint64, count *tally) {
		// After the epoch of snowflake IDs.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		f := newFleet(t, seed, codec.ManifestBundle, count)
		f.run()
		f.judge()
	})
}

// simulate runs the seeds on all processors, 1/share of what the flags say, until one fails.
func simulate(t *testing.T, share uint64, run func(*testing.T, uint64, *tally)) {
	t.Helper()
	first, n := max(*replay, 1), *seeds
	switch {
	case n == 0 && *replay != 0:
		n = 1
	case n == 0:
		n = 60 / share
	default:
		n = (n + share - 1) / share
	}
	var next atomic.Uint64
	var failed atomic.Bool
	next.Store(first)
	count, began := newTally(), time.Now()
	t.Run("on", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprintf("processor=%d", worker), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed < first+n && !failed.Load(); seed = next.Add(1) - 1 {
					synctest.Test(t, func(t *testing.T) { // ends the worker if the seed fails
						t.Cleanup(func() { failed.Store(failed.Load() || t.Failed()) })
						run(t, seed, count)
						count.add("seeds", 1)
					})
				}
			})
		}
	})
	t.Logf("%.0f seeds a second; %s", float64(count.counts["seeds"])/time.Since(began).Seconds(), count)
}

// tally counts over all seeds what happened, so that a simulation that has become tame shows, and how often an anomaly
// of the protocol explained what would else be a failure.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (c *tally) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what] += n
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := ""
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		out += fmt.Sprintf("%s %d, ", what, c.counts[what])
	}
	return out
}

// trouble is what a seed has beside users and bad weather.
type trouble struct {
	Silent bool // losses that nobody notices; else the receiver's connection breaks with each
	FIFO   bool // messages stay in order
	Late   bool // some come fifteen seconds late
	Cuts   bool // single processes lose their lines for a while
	Labels bool // some changes are of labels only
	Slow   bool // work controllers skip works, and hold them when they are deleted
	Named  bool // the agent of the first cluster names its sources
	Forget bool // hubs give up on clusters that come back
	Clocks bool // wall clocks are set, up to an hour off
	Small  bool // the broker takes small messages only, so that lists come in chunks
	Bad    bool // some specs cannot be decoded
	Held   bool // hubs' users have finalizers of their own
	Open   bool // some inventories are never complete
	Drop   bool // a restarted source's owner does not create all its works anew
	Stores bool // half of the processes have a store
}

func troubleOf(seed uint64, profile codec.Profile) trouble {
	random := rand.New(rand.NewPCG(seed, 3))
	often := func() bool { return random.IntN(4) > 0 }
	seldom := func() bool { return random.IntN(4) == 0 }
	t := trouble{
		Silent: random.IntN(2) == 0, FIFO: seldom(), Late: often(), Cuts: often(),
		Labels: often(), Slow: often(), Named: seldom(), Forget: seldom(), Clocks: seed%2 == 0, Small: seldom(),
		Bad: seldom(), Held: seldom(), Open: seldom(), Drop: often(),
		Stores: random.IntN(2) == 0,
	}
	if profile.Traits().Strict {
		t.Silent = true
		t.Clocks, t.Small, t.Bad, t.Open, t.Drop = false, false, false, false, false
	}
	return t
}
