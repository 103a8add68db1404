// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"time"
	"weak"

	"k8s.io/utils/clock"
)

// Limits bound the superseded objects that a cache keeps. Memory that a current object shares does not count.
type Limits struct {
	// Bytes bounds the log, the snapshots of lists in pages, and what is pending for one watcher: each of them.
	Bytes int
	// Age bounds how old an event of the log becomes, and how long a list may pause between two pages.
	Age time.Duration
}

// now is the time since the cache was made.
func (s *Cache[R]) now() time.Duration { return s.clock.Since(s.began) }

// expire forgets what is too old.
func (s *Cache[R]) expire() { s.expireAt(s.now()) }

func (s *Cache[R]) expireAt(now time.Duration) {
	until := now - s.limits.Age
	s.log.expire(until)
	if len(s.snapshots) > 0 {
		s.snapshots = slices.DeleteFunc(s.snapshots, func(snap *snapshot) bool { return snap.lastUse() <= until })
	}
	s.arm()
}

// stopper is a timer that calls a function.
type stopper interface{ Stop() bool }

// arm starts the timer that calls expire on an idle cache, unless it runs or nothing is kept. No
// goroutine waits for it.
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
	// A little late is often enough while much is written, and reads look for themselves.
	wait := max(oldest+s.limits.Age-s.now(), s.limits.Age/20)
	// A cache that its owner has dropped without Close is not kept by its timer.
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

func (s *Cache[R]) disarm() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// afterFunc calls f after d, in a goroutine. Of a clock that cannot do that, the machine's takes the place.
func afterFunc(c clock.Clock, d time.Duration, f func()) stopper {
	if c, ok := c.(interface {
		AfterFunc(d time.Duration, f func()) clock.Timer
	}); ok {
		return c.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}
