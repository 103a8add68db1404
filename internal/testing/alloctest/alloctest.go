// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package alloctest measures the memory that tests allocate.
package alloctest

import (
	"runtime"
	"time"
)

// Cost calls a function. It returns the bytes that the process allocated meanwhile, and the
// duration.
func Cost(f func()) (bytes uint64, took time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took
}
