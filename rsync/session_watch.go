// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// A session watches three sets of keys: the sessions that are alive, the contexts that are active, and those that are
// stopped. They decide which contexts it reads. Of all live sessions a hash names one for each context, its home. The
// home alone reads a context that is active, and takes it unless its record names another live owner. An owner keeps a
// context until an event or the queue ends; then the context returns to its home.
//
// The hash decides only who tries. Sessions that see different sets may both try, or none: the
// record and the fence decide between two, and a session scans all active contexts again when
// another one ends, and when it first sees itself. So the home by the last set that all have seen
// tries. It learns that an owner has let go from the active record, which is deleted or put again
// in the same transaction, and from the owner's key.

// followPause is the longest pause between a watch and the next.
const followPause = 500 * time.Millisecond

// change is a name that came to a set, was put again or has gone.
type change struct {
	name   string
	there  bool
	again  bool // it was there before
	listed bool // it was read, not watched: when it came is not known
	value  []byte
}

// follow keeps a set up to date with the keys of a prefix, and calls saw with the changes. It reads all again when a
// watch cannot go on; then all names are among the changes.
func (s *session) follow(prefix string, set map[string]bool, saw func([]change)) {
	for attempt := 1; s.ctx.Err() == nil; attempt++ {
		began := s.engine.options.Clock.Now()
		result, err := s.engine.store.Range(s.ctx, prefix)
		if err == nil {
			saw(s.replace(prefix, result.KVs, set))
			for message := range s.engine.store.Watch(s.ctx, prefix, result.Revision+1) {
				changes := make([]change, len(message.Events))
				for i, event := range message.Events {
					changes[i] = change{name: idOf(prefix, event.KV.Key), there: !event.Deleted, value: event.KV.Value}
				}
				saw(s.note(set, changes...))
			}
		}
		// A watch that breaks off now and then must not be waited for longer each time: until it is back no Stop is seen.
		if s.engine.options.Clock.Since(began) > followPause {
			attempt = 1
		}
		s.engine.sleep(s.ctx, min(s.engine.options.Backoff.delay(attempt), followPause))
	}
}

// replace makes a set that of all keys of the prefix.
func (s *session) replace(prefix string, kvs []store.KeyValue, set map[string]bool) []change {
	now := map[string]bool{}
	var changes []change
	for _, kv := range kvs {
		name := idOf(prefix, kv.Key)
		now[name] = true
		changes = append(changes, change{name: name, there: true, listed: true, value: kv.Value})
	}
	s.mu.Lock()
	for name := range set {
		if !now[name] {
			changes = append(changes, change{name: name})
		}
	}
	s.mu.Unlock()
	return s.note(set, changes...)
}

// note makes changes to a set, all at once.
func (s *session) note(set map[string]bool, changes ...change) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range changes {
		changes[i].again = set[c.name]
		if c.there {
			set[c.name] = true
		} else {
			delete(set, c.name)
		}
	}
	return changes
}

// sawEngines looks at the active contexts again where a session has ended: it was the home of some and the owner of
// some. One that has begun changes nothing for the others, but has to scan itself.
func (s *session) sawEngines(changes []change) {
	scan := false
	for _, c := range changes {
		if c.name == s.name && !c.there {
			s.lose(errors.New("its key is gone"))
			return
		}
		scan = scan || !c.there || c.name == s.name && !c.again
	}
	if scan {
		s.scan()
	}
	s.observer.rehome()
}

// isHome reports whether the session is the home of a context.
func (s *session) isHome(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.homeLocked(id) == s.name
}

// scan hands out the active contexts that the session has or is the home of.
func (s *session) scan() {
	s.mu.Lock()
	var ids []string
	for id := range s.active {
		// Also those that the session has: a worker may find just now that they are the ended session's.
		if s.owned[id] || s.homeLocked(id) == s.name {
			ids = append(ids, id)
		}
		if !s.owned[id] {
			s.foreign[id] = true
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.ready.add(id)
	}
}

func (s *session) sawActive(changes []change) {
	s.mu.Lock()
	for _, c := range changes {
		if r := s.runs[c.name]; r != nil {
			r.queueChanged.Store(true)
		}
		switch {
		case !c.there:
			delete(s.foreign, c.name)
		case c.listed && !s.owned[c.name]:
			s.foreign[c.name] = true
		}
	}
	s.mu.Unlock()
	for _, c := range changes {
		if c.there {
			s.ready.add(c.name)
		}
	}
}

func (s *session) sawStop(changes []change) {
	for _, c := range changes {
		if c.there && s.isActive(c.name) {
			s.ready.add(c.name)
		}
	}
}

// isActive reports whether a context has something to do.
func (s *session) isActive(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[id] || s.owned[id]
}

func (s *session) isStopped(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped[id]
}

// tries reports whether the session reads a context.
func (s *session) tries(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[id] || s.homeLocked(id) == s.name
}

// mine reports whether the session may work on a context with that owner: itself, or no live
// session.
func (s *session) mine(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case owner == s.name:
		return true
	case owner != "" && s.engines[owner]:
		if s.active[id] {
			s.foreign[id] = true
		}
		return false
	}
	return s.owned[id] || s.homeLocked(id) == s.name
}

// isForeign reports whether another session may own the context, so that its record should be read
// before the rest.
func (s *session) isForeign(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.foreign[id]
}

// own notes that the session works on a context. A write that makes it the owner may be done
// without an answer, so from now on it does not give up the context before it has read that it is
// another's or that nothing is to do.
func (s *session) own(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned[id] = true
	delete(s.foreign, id)
}

func (s *session) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owned, id)
}

// goesHome reports whether another live session is the home of a context.
func (s *session) goesHome(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	home := s.homeLocked(id)
	return home != "" && home != s.name
}

// homeLocked returns which of the live sessions reads a context: the one with the highest score, so that one that
// comes or goes changes the home of no context but its own. It is empty until the session has seen itself.
func (s *session) homeLocked(id string) string {
	if !s.engines[s.name] {
		return ""
	}
	best, bestScore := "", uint64(0)
	for name := range s.engines {
		if score := score(id, name); best == "" || score > bestScore || score == bestScore && name > best {
			best, bestScore = name, score
		}
	}
	return best
}

// score is as good as random for each pair. The sum alone would not be: similar names have similar sums.
func score(id, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id + "/" + name))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
