// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

// Stats are figures of a cache, for metrics.
type Stats struct {
	// Objects is the number of objects, Watchers the number of watches.
	Objects, Watchers int
	WatchEnds
}

// WatchEnds counts the watches that the cache ended with an error, by reason.
type WatchEnds struct {
	// Slow: the watcher did not read fast enough. Expired: the watch began at a version that is too
	// old. Future: it began at a version that does not exist yet.
	Slow, Expired, Future uint64
}

// Stats returns the figures. Its cost does not depend on the number of objects.
func (s *Cache[R]) Stats() Stats {
	out := Stats{Objects: s.count, WatchEnds: s.ends}
	for _, watchers := range s.watchers {
		out.Watchers += len(watchers)
	}
	return out
}
