// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package simulation_test runs the real sources and agents over a broker in memory. Users of
// sources and work controllers do random operations, the network has faults, processes crash and
// restart, and clocks are set. During a run, its watches check each event against the users'
// operations (watch_test.go). After the run the faults end. Then every agent must have exactly its
// works, and every source the last status of each work (verify_test.go).
//
//	go test ./cloudevents/work/internal/simulation -work.seeds 100000   as make fuzz does
//	go test ./cloudevents/work/internal/simulation -run '^TestSimulation$' -work.seed 17 -v   one run again
package simulation_test

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

var (
	replay = flag.Uint64("work.seed", 0, "the first seed of the simulations: the only one, unless -work.seeds is set")
	seeds  = flag.Uint64("work.seeds", 0,
		"how many seeds TestSimulation runs, 60 by default; those of other profiles and peers run a quarter")
)

// TestSimulation simulates our own sources and agents in the default profile.
func TestSimulation(t *testing.T) {
	simulate(t, 1, func(t *testing.T, seed uint64, count *tally) {
		f := newFleet(t, seed, codec.ManifestWork, count)
		f.run()
		f.verify()
		f.verifyQuiet()
		f.verifyMemory()
	})
}

// TestBundleSimulation is TestSimulation in the profile ManifestBundle, without wrong clocks: this
// profile cannot distinguish a clock that stepped back from a late message.
func TestBundleSimulation(t *testing.T) {
	simulate(t, 4, func(t *testing.T, seed uint64, count *tally) {
		// The run must begin after the epoch of snowflake IDs.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		f := newFleet(t, seed, codec.ManifestBundle, count)
		f.run()
		f.verify()
	})
}

// simulate runs 1/share of the number of seeds that the flags give, on all processors, until one
// fails.
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

// tally counts events over all seeds. The counts show whether a simulation has become tame, and how
// often an anomaly of the protocol explained an apparent failure.
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

// config is the configuration of a seed, besides users and network faults.
type config struct {
	Silent bool // losses are silent; otherwise each loss breaks the receiver's connection
	FIFO   bool // messages stay in order
	Late   bool // some messages are up to fifteen seconds late
	Cuts   bool // single processes lose their links for a while
	Labels bool // some changes are of labels only
	Slow   bool // work controllers skip works, and hold them when they are deleted
	Named  bool // the agent of the first cluster names its sources
	Forget bool // sources forget clusters that return
	Clocks bool // wall clocks are set, up to an hour off
	Small  bool // the broker accepts only small messages, so lists are split into chunks
	Bad    bool // some specs cannot be decoded
	Held   bool // users of sources have their own finalizers
	Open   bool // some inventories are never complete
	Drop   bool // the owner of a restarted source does not create all its works again
	Stores bool // half of the processes have a store
}

func configOf(seed uint64, profile codec.Profile) config {
	random := rand.New(rand.NewPCG(seed, 3))
	often := func() bool { return random.IntN(4) > 0 }
	seldom := func() bool { return random.IntN(4) == 0 }
	t := config{
		Silent: random.IntN(2) == 0, FIFO: seldom(), Late: often(), Cuts: often(),
		Labels: often(), Slow: often(), Named: seldom(), Forget: seldom(), Clocks: seed%2 == 0, Small: seldom(),
		Bad: seldom(), Held: seldom(), Open: seldom(), Drop: often(),
		Stores: random.IntN(2) == 0,
	}
	if profile.Traits().Bundle {
		t.Silent = true
		t.Clocks, t.Small, t.Bad, t.Open, t.Drop = false, false, false, false, false
	}
	return t
}
