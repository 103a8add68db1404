// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"runtime"
	"runtime/metrics"
)

// Memory is the memory of the process, in bytes.
type Memory struct {
	Heap  int64 // live objects
	Stack int64 // of all goroutines
}

// Live collects garbage and returns the live memory.
func Live() Memory {
	for range 2 { // the second collects objects with finalizers
		runtime.GC()
	}
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {
		Name: "/memory/classes/heap/stacks:bytes",
	}}
	metrics.Read(samples)
	return Memory{Heap: int64(samples[0].Value.Uint64()), Stack: int64(samples[1].Value.Uint64())}
}

// Minus returns the difference from before.
func (m Memory) Minus(before Memory) Memory {
	return Memory{Heap: m.Heap - before.Heap, Stack: m.Stack - before.Stack}
}

// Allocated returns the bytes that were allocated since the start of the process.
func Allocated() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64())
}
