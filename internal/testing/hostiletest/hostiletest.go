// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostiletest checks in tests that expressions from untrusted sources stay within limits of
// time and memory.
package hostiletest

import (
	"runtime"
	"syscall"
	"time"
)

const (
	// mostTime limits processor time, which does not depend on other work on the machine. It is 24
	// times the limit of an expression, because the race detector and the garbage collector count
	// too.
	mostTime = 6 * time.Second
	// mostBytes limits the total of all allocations. The memory in use at one time is less.
	mostBytes = 128 << 20
)

// T is the part of testing.T that Check needs.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Check fails the test if f takes too long or allocates too much.
func Check(t T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processorTime()
	endless := time.AfterFunc(5*mostTime, func() { panic("the call does not end") }) // fuzzing waits silently
	f()
	endless.Stop()
	d := processorTime() - began
	runtime.ReadMemStats(&after)
	bytes := after.TotalAlloc - before.TotalAlloc
	t.Logf("%s, %d KiB", d.Round(time.Microsecond), bytes>>10)
	if d > mostTime || bytes > mostBytes {
		t.Errorf("took %s and %d MiB, more than %s or %d MiB", d, bytes>>20, mostTime, mostBytes>>20)
	}
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
