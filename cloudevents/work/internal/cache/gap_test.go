// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/cache"
)

// TestGaps: no watch resumes within a gap, and watches resume at its ends. After many gaps the oldest
// versions are too old.
func TestGaps(t *testing.T) {
	run(t, false, func(s *script) {
		s.put("a", "w")
		from := s.current()
		s.gap(from, from+10)
		s.put("a", "w", "k", "v")
		for version, want := range map[uint64]watch.EventType{
			from: watch.Modified, from + 1: watch.Error, from + 9: watch.Error, from + 10: watch.Modified,
		} {
			if e := s.first(version); e.Type != want {
				t.Errorf("a watch from %d begins with %v, want %s; the gap begins at %d", version, e, want, from)
			}
		}
		for range 2000 {
			last := s.current()
			s.gap(last, last+10)
		}
		if e := s.first(from + 10); e.Type != watch.Error {
			t.Errorf("after 2,000 gaps a watch begins with %v", e)
		}
		last := s.current()
		s.put("a", "w", "k", "x")
		if e := s.first(last); e.Type != watch.Modified {
			t.Errorf("a watch from the last version begins with %v", e)
		}
	})
}

func (s *script) gap(from, to uint64) {
	s.cache.Lock()
	defer s.cache.Unlock()
	s.cache.Advance(from, to, true)
}

// first returns the first event of a watch from a version.
func (s *script) first(version uint64) watch.Event {
	w := s.watch(cache.WatchOptions{Resume: true, Since: version})
	defer w.Stop()
	return <-w.ResultChan()
}
