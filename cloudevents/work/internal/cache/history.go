// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"time"
	"weak"

	"k8s.io/utils/clock"
)

// Limits bound the superseded objects in a cache. Memory that they share with current objects does
// not count.
type Limits struct {
	// Bytes is the limit of each of these: the log, the snapshots of lists in pages, and the
	// pending events of one watcher.
	Bytes int
	// Age bounds the age of an event in the log, and the time between two pages of a list.
	Age time.Duration
}

// now returns the time since the cache was made.
func (s *Cache[R]) now() time.Duration { return s.clock.Since(s.began) }

// expire drops old events and snapshots.
func (s *Cache[R]) expire() { s.expireAt(s.now()) }

func (s *Cache[R]) expireAt(now time.Duration) {
	until := now - s.limits.Age
	s.log.expire(until)
	if len(s.snapshots) > 0 {
		s.snapshots = slices.DeleteFunc(s.snapshots, func(snap *snapshot) bool { return snap.lastUse() <= until })
	}
	s.arm()
}

// arm starts the timer that calls expire on an idle cache, unless it runs or nothing is kept.
func (s *Cache[R]) arm() {
	if s.timer != nil || s.closed || s.log.n == 0 && len(s.snapshots) == 0 {
		return
	}
	oldest := s.now()
	if s.log.n > 0 {
		oldest = s.log.at(0).at
	}
	for _, snap := range s.snapshots {
		oldest = min(oldest, snap.lastUse())
	}
	// The timer may be a little late, which saves timers: reads expire events themselves.
	wait := max(oldest+s.limits.Age-s.now(), s.limits.Age/20)
	// The timer must not keep a cache in memory that its owner has dropped without Close.
	ref := weak.Make(s)
	s.timer = afterFunc(s.clock, wait, func() {
		s := ref.Value()
		if s == nil {
			return
		}
		s.Lock()
		defer s.Unlock()
		s.timer = nil
		s.expire()
	})
}

// afterFunc calls f after d, in a goroutine. If the clock does not support that, it uses the real
// clock.
func afterFunc(c clock.Clock, d time.Duration, f func()) clock.Timer {
	if c, ok := c.(clock.WithDelayedExecution); ok {
		return c.AfterFunc(d, f)
	}
	return clock.RealClock{}.AfterFunc(d, f)
}
