// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package measure

import (
	"fmt"
	"syscall"
	"time"
)

// CPU returns the processor time of this process.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// AllowFiles ensures that the process may open so many files. It raises the soft limit if needed.
func AllowFiles(want int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	need := uint64(want)
	if limit.Cur >= need {
		return nil
	}
	if limit.Max < need {
		return fmt.Errorf("%d open files are needed, one for each agent, but the limit is %d: raise the limit "+
			"(ulimit -n) or use fewer agents", want, limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d open files are needed, and the limit could not be raised: %w", want, err)
	}
	return nil
}
