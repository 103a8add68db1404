// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// wire returns the bytes of all open TCP connections. It reads the counters of the kernel, so it
// does not slow down the connections. Files may be opened and closed in the meantime.
func wire() (total wireBytes) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return wireBytes{}
	}
	for _, file := range files {
		fd, err := strconv.Atoi(file.Name())
		if err != nil {
			continue
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			total.sent += int(info.Bytes_acked)
			total.received += int(info.Bytes_received)
		}
	}
	return total
}

// resident returns the bytes of the process in memory.
func resident() int {
	if fields := procFields("/proc/self/statm"); len(fields) > 1 {
		pages, _ := strconv.Atoi(fields[1])
		return pages * os.Getpagesize()
	}
	return 0
}

// loadAverage returns the load average of the last minute.
func loadAverage() string {
	if fields := procFields("/proc/loadavg"); len(fields) > 0 {
		return fields[0]
	}
	return "unknown"
}

func procFields(path string) []string {
	content, _ := os.ReadFile(path)
	return strings.Fields(string(content))
}
