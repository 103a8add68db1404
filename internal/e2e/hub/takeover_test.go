// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestTakeover kills leaders of hubs with few and with many works. The processor time that the next
// leader needs until it accepts a document must not grow with the works. With -hub.previous, the
// test only measures that program.
func TestTakeover(t *testing.T) {
	const kills = 3
	median := func(works int) time.Duration {
		r := deployReplicas(t, works, *previous)
		var took, spent []time.Duration
		for range kills {
			h, before := r.leader(), map[*replica]time.Duration{}
			for _, other := range r.others(h) {
				before[other] = other.processorTime()
			}
			h.kill()
			began := time.Now()
			if err := r.next(t.Context(), r.others(h), "unplaced"); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began).Round(time.Millisecond))
			for _, other := range r.others(h) {
				before[other] = other.processorTime() - before[other]
			}
			spent = append(spent, before[r.leader()])
			h.start()
			r.serve(r.hubs)
		}
		slices.Sort(took)
		slices.Sort(spent)
		t.Logf("%d works: accepts a document after %v, with a processor time of %v", works, took, spent)
		return spent[kills/2]
	}
	works := *replicaWorks / 4
	few, many := median(works), median(5*works)
	if *previous == "" && many > 2*few+100*time.Millisecond {
		t.Errorf("the processor time of a takeover is %v with %d works, and %v with five times as many", few, works, many)
	}
}

// processorTime returns the processor time of the process.
func (h *replica) processorTime() time.Duration {
	h.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.run.PID()))
	if err != nil {
		h.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	ticks := 0
	for _, field := range strings.Fields(after)[11:13] { // utime and stime, in 1/100 s
		n, err := strconv.Atoi(field)
		if err != nil {
			h.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestRollingUpdate replaces three replicas one after the other while documents are written. No
// client that retries gets an error, no object is deleted, and each agent applies each object at
// most once for each version. The replaced program is that of -hub.previous, or by default the
// current one.
func TestRollingUpdate(t *testing.T) {
	r := deployReplicas(t, *replicaWorks, *previous)
	stop := r.load()
	defer stop()
	for _, h := range r.hubs {
		h.end()
		h.program = e2etest.Program(t, "hub", false)
		h.start()
		r.serve(r.hubs)
	}
	stop()
	r.finish()
}
