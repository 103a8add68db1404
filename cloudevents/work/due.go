// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"time"
)

// isDue reports whether a time has passed. most is how far ahead the time was when it was set. A
// time that is further ahead is due too, because the clock was set back.
func isDue(at, now time.Time, most time.Duration) bool { return !now.Before(at) || at.Sub(now) > most }

// earliest returns the earliest of times that are not zero.
func earliest(t time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if !other.IsZero() && other.Before(t) {
			t = other
		}
	}
	return t
}
