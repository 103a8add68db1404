// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"strings"
	"sync"
)

// Log is an io.Writer that keeps the end of its input: at least the last 128 KiB. The zero value is
// empty. Its methods may be called concurrently.
type Log struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	// The buffer is cut only at twice the limit, because each cut moves the kept part.
	if len(l.buf) > 2*logLimit {
		l.buf = append(l.buf[:0], l.buf[len(l.buf)-logLimit:]...)
	}
	return len(p), nil
}

// String returns all that is kept.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}

// Last returns at most n bytes from the end, starting at the beginning of a line.
func (l *Log) Last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := string(l.buf)
	if len(end) > n {
		_, end, _ = strings.Cut(end[len(end)-n:], "\n")
	}
	return strings.TrimRight(end, "\n")
}
