// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

const (
	// leastWindow is the number of unacknowledged bytes up to which another event may always be
	// published.
	leastWindow = 64 << 10
	// windowPace is the number of unacknowledged bytes per millisecond of round trip: 64 MB/s,
	// whatever the distance.
	windowPace = 64 << 10
	// leastCounted is the least size that an event counts: without data it still has attributes.
	leastCounted = 512
)

// window bounds the bytes of LaneBulk that are published and not acknowledged. Otherwise changes
// would wait for all of them, in the broker and at the receiver. A distant broker needs a larger
// window: the fastest acknowledgement shows the distance.
type window struct {
	taken   int
	fastest time.Duration // 0 before the first acknowledgement
}

func (w *window) open() bool {
	return w.taken < max(leastWindow, int(w.fastest.Seconds()*1000*windowPace))
}

// add counts an event, and returns its share of the window.
func (w *window) add(bytes int) int {
	bytes = max(bytes, leastCounted)
	w.taken += bytes
	return bytes
}

// remove removes an event, and reports whether that opens the window. after is the time until the
// broker acknowledged the event, or 0 if it did not.
func (w *window) remove(bytes int, after time.Duration) bool {
	closed := !w.open()
	w.taken -= bytes
	if after > 0 && (w.fastest == 0 || after < w.fastest) {
		w.fastest = after
	}
	return closed && w.open()
}
