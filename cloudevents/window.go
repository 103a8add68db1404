// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cloudevents

import "time"

const (
	// leastWindow is how many bytes may always be under way when another event is published.
	leastWindow = 64 << 10
	// windowPace is how many bytes per millisecond of a round trip may be: 64 MB/s, whatever the distance.
	windowPace = 64 << 10
	// leastCounted is what an event counts at least: one without data has attributes.
	leastCounted = 512
)

// window bounds how much of the lane Bulk is published and not acknowledged: else news would wait
// for all of it, in the broker and at the other end, where a long resync keeps everybody busy for a
// while. A broker that is far away needs more under way; how far it is, the fastest acknowledgement
// tells, which no load can make faster.
type window struct {
	taken   int
	fastest time.Duration // 0 while none has come
}

func (w *window) open() bool {
	return w.taken < max(leastWindow, int(w.fastest.Seconds()*1000*windowPace))
}

// take counts an event, and returns what it takes.
func (w *window) take(bytes int) int {
	bytes = max(bytes, leastCounted)
	w.taken += bytes
	return bytes
}

// give counts the end of an event, which the broker acknowledged after a time, or did not: 0. It reports whether the
// window was closed before and is open now.
func (w *window) give(bytes int, after time.Duration) bool {
	closed := !w.open()
	w.taken -= bytes
	if after > 0 && (w.fastest == 0 || after < w.fastest) {
		w.fastest = after
	}
	return closed && w.open()
}
