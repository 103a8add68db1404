// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// TestTakeover kills leaders one after the other. Each time, another replica must accept a document.
// The test logs how long that took, and the processor time that the next leader needed until then.
func TestTakeover(t *testing.T) {
	r := deployReplicas(t, *replicaWorks, *previous)
	for range 3 {
		h, before := r.leader(), map[*replica]time.Duration{}
		for _, other := range r.others(h) {
			before[other] = other.processorTime()
		}
		h.kill()
		began := time.Now()
		if err := r.next(t.Context(), r.others(h), "unplaced"); err != nil {
			t.Fatal(err)
		}
		took, leader := time.Since(began).Round(time.Millisecond), r.leader()
		t.Logf("%d works: accepts a document after %v, with a processor time of %v",
			*replicaWorks, took, leader.processorTime()-before[leader])
		h.start()
		r.serve(r.hubs)
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
