// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2etest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Memory returns a field of /proc/PID/status in bytes, for example VmRSS, the resident memory. Only
// Linux has this file.
func Memory(t testing.TB, pid int, field string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("memory of process %d: %v", pid, err)
	}
	_, value, _ := strings.Cut(string(status), "\n"+field+":")
	var kib int
	if _, err := fmt.Sscanf(value, "%d kB", &kib); err != nil {
		t.Fatalf("memory of process %d: %s: %v", pid, field, err)
	}
	return kib << 10
}
