// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache

// Stats are figures of a cache, for metrics.
type Stats struct {
	// Objects is how many there are, Watchers how many watches read them.
	Objects, Watchers int
	WatchEnds
}

// WatchEnds counts the watches that the cache ended with an error, by its reason.
type WatchEnds struct {
	// Slow: the watcher did not read. Expired: it began at a version that is too old. Future: at one that does not
	// exist yet.
	Slow, Expired, Future uint64
}

// Stats returns the figures. The cost does not depend on how many objects there are.
func (s *Cache[R]) Stats() Stats {
	out := Stats{Objects: s.count, WatchEnds: s.ends}
	for _, watchers := range s.watchers {
		out.Watchers += len(watchers)
	}
	return out
}
