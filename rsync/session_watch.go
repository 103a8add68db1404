// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/spokewire/sdk-go/rsync/store"
)

// A session watches three sets of keys: live sessions, active contexts and stopped contexts. They
// decide which contexts it reads. doc_durable.go describes the home and the owner of a context.

// followPause is the longest pause between two watches.
const followPause = 500 * time.Millisecond

// change is a name that was added to a set, put again, or removed.
type change struct {
	name   string
	there  bool
	again  bool // the set had it before
	listed bool // it was listed, not watched: the time of the change is unknown
	value  []byte
}

// follow keeps a set up to date with the keys of a prefix, and calls saw with the changes. It lists
// all keys again when a watch ends. Then all names are among the changes.
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
		// Occasional failures of a watch must not increase the pause: without a watch no Stop is
		// seen.
		if s.engine.options.Clock.Since(began) > followPause {
			attempt = 1
		}
		s.engine.sleep(s.ctx, min(s.engine.options.Backoff.delay(attempt), followPause))
	}
}

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

// note applies changes to a set, all in one critical section.
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

// sawEngines scans the active contexts again after a session has ended, which was the home or the
// owner of some. A new session changes nothing for the others, but must scan once itself.
func (s *session) sawEngines(changes []change) {
	scan := false
	for _, c := range changes {
		if c.name == s.name && !c.there {
			s.lose(errors.New("the session's key was deleted"))
			return
		}
		scan = scan || !c.there || c.name == s.name && !c.again
	}
	if scan {
		s.scan()
	}
	s.observer.rehome()
}

func (s *session) isHome(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.homeLocked(id) == s.name
}

// scan queues the active contexts that the session owns, or for which it is the home.
func (s *session) scan() {
	s.mu.Lock()
	var ids []string
	for id := range s.active {
		// Also owned contexts: a worker may just have read that the ended session owns them.
		if s.owned[id] || s.homeLocked(id) == s.name {
			ids = append(ids, id)
		}
		if !s.owned[id] {
			s.foreign[id] = true
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.ready.Add(id)
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
			s.ready.Add(c.name)
		}
	}
}

func (s *session) sawStop(changes []change) {
	for _, c := range changes {
		if c.there && s.isActive(c.name) {
			s.ready.Add(c.name)
		}
	}
}

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

func (s *session) tries(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[id] || s.homeLocked(id) == s.name
}

// mine reports whether the session may work on a context of that owner.
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

func (s *session) isForeign(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.foreign[id]
}

// own records that the session works on a context, until it reads that another session owns it or
// that no work is left. A write that makes the session the owner may succeed without an answer.
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

func (s *session) goesHome(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	home := s.homeLocked(id)
	return home != "" && home != s.name
}

// homeLocked returns the home of a context: the live session with the highest score. A session that
// starts or ends changes only the homes of its own contexts. The result is empty until the session
// has seen its own key.
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

// score returns a pseudorandom number for each pair. The FNV sum alone would not do: similar names
// have similar sums.
func score(id, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id + "/" + name))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
