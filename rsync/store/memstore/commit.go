// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/spokewire/sdk-go/rsync/store"
)

// commit executes the ops at a new revision and notifies the watches. The caller must lock s.mu.
func (s *Store) commit(ops []store.Op) {
	s.revision++
	var events []store.Event
	for _, op := range ops {
		switch op.Kind {
		case store.OpKindPut:
			events = append(events, s.put(op))
		case store.OpKindDelete:
			if s.data[op.Key] != nil {
				events = append(events, s.delete(op.Key))
			}
		case store.OpKindDeletePrefix:
			first := sort.SearchStrings(s.keys, op.Key)
			end := first
			for end < len(s.keys) && strings.HasPrefix(s.keys[end], op.Key) {
				end++
			}
			for _, key := range slices.Clone(s.keys[first:end]) {
				events = append(events, s.delete(key))
			}
		}
	}
	if len(events) == 0 {
		s.revision-- // as in etcd: nothing was written
		return
	}
	s.remember(events)
	for w := range s.watches {
		w.add(s.revision, events)
	}
}

func (s *Store) put(op store.Op) store.Event {
	kv := &store.KeyValue{
		Key: op.Key, Value: slices.Clip(slices.Clone(op.Value)), Lease: op.Lease, CreateRevision: s.revision,
		ModRevision: s.revision,
	}
	if before := s.data[op.Key]; before != nil {
		kv.CreateRevision = before.CreateRevision
	} else {
		i := sort.SearchStrings(s.keys, op.Key)
		s.keys = slices.Insert(s.keys, i, op.Key)
	}
	s.data[op.Key] = kv
	return store.Event{KV: *kv}
}

func (s *Store) delete(key string) store.Event {
	delete(s.data, key)
	i := sort.SearchStrings(s.keys, key)
	s.keys = slices.Delete(s.keys, i, i+1)
	return store.Event{Deleted: true, KV: store.KeyValue{Key: key, ModRevision: s.revision}}
}

func (s *Store) remember(events []store.Event) {
	for _, e := range events {
		s.log = append(s.log, logged{s.revision, e})
	}
	// The log drops half of its events at a time, so each event is copied once. It drops whole
	// revisions.
	if len(s.log) > 2*s.options.History {
		cut := len(s.log) - s.options.History
		for cut < len(s.log) && s.log[cut].revision == s.log[cut-1].revision {
			cut++
		}
		s.dropped = s.log[cut-1].revision
		s.log = append([]logged(nil), s.log[cut:]...)
	}
}

// Compact removes all past events, like a compaction of etcd, and frees the memory of deleted keys.
// A watch from the revision of a removed event returns ErrCompacted.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped, s.log = s.revision, nil
	s.data, s.keys = maps.Collect(maps.All(s.data)), append([]string(nil), s.keys...) // copies free the memory
}
