// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import "time"

// IsDue reports whether a time has passed. most is how far ahead the time was when it was set. A
// time that is further ahead is due too, because the clock was set back.
func IsDue(at, now time.Time, most time.Duration) bool { return !now.Before(at) || at.Sub(now) > most }

// Earliest returns the earliest of the times that are not zero, or zero without such a time.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
