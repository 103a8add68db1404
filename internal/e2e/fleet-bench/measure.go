// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

// memory is live memory, in bytes: objects, and the stacks of all goroutines.
type memory struct{ heap, stack int }

// live collects garbage and returns the live memory of the process.
func live() memory {
	for range 2 { // the second collects objects with finalizers
		runtime.GC()
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples)
	return memory{heap: int(samples[0].Value.Uint64()), stack: int(samples[1].Value.Uint64())}
}

// each returns the memory of each of n objects that were created after before.
func (m memory) each(before memory, n int) *memory {
	return &memory{heap: (m.heap - before.heap) / n, stack: (m.stack - before.stack) / n}
}

// cpu returns the processor time of the process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// state describes the hub process and the load of the machine.
func state() string {
	grown := resident()
	return fmt.Sprintf("hub: %s of live heap, %s resident, %s of CPU; load average %s", size(live().heap), size(grown),
		short(cpu()), loadAverage())
}

// checkFiles returns an error if the process may not open so many files. The Go runtime has raised
// the soft limit to the hard one.
func checkFiles(want int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur < uint64(want) {
		return fmt.Errorf("%d open files are needed for the agents, but the limit is %d: raise the limit "+
			"(ulimit -n) or use fewer agents", want, limit.Cur)
	}
	return nil
}

// wireBytes are the bytes that the connections of this process have sent and received, with TLS and
// without TCP headers.
type wireBytes struct{ sent, received int }

func (b wireBytes) minus(before wireBytes) wireBytes {
	return wireBytes{sent: b.sent - before.sent, received: b.received - before.received}
}
