// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Store keeps the state of a [Source] or an [Agent] over restarts: its works with their statuses,
// versions and tombstones. Without a Store, the next agent receives its works from the
// sources, and the program of a source creates its works again; see STORES.md.
//
// A Store has records: opaque values under keys of printable text. A source or agent has one record
// for each work, tombstone and cluster, and a few more. In the profile ManifestBundle a source also
// has a record for each removed work, for at least a day. Keys have at most [MaxKeyLength] bytes;
// values are as large as works. A Store serves one source or agent. Package boltstore keeps the
// records in a file, package pgstore in PostgreSQL, package etcdstore in etcd, and
// [NewMemoryStore] in memory. Package storetest tests other implementations.
//
// All methods may be called from any goroutine. They must return soon after their context ends,
// because Start waits for them. After the context of Start has ended, a write may continue for
// DrainTimeout and 5 s. Then its context ends.
type Store interface {
	// Load calls f for each record, in any order, and returns f's first error. [NewSource] and
	// [NewAgent] call it with a context that does not end, and wait for it. For a replica, NewSource
	// calls Follow instead. f must not change the value, or keep it after it has returned. If a
	// record cannot be read, the source or agent does not start, and the error names the record.
	// Without the record, a peer would delete the work.
	Load(ctx context.Context, f func(key string, value []byte) error) error
	// Apply makes all changes or no change. When it returns nil, the changes survive a crash of the
	// process and a power failure. When it returns an error, they may or may not have been made, but
	// they must not be made after those of a later call: the caller repeats them with later changes.
	// A record that always fails blocks all others, and Healthy returns the error. Each key occurs
	// once in changes. Apply may keep the values, but must not change them.
	Apply(ctx context.Context, changes []Change) error
}

// MaxKeyLength is the maximum length of a record's key in bytes. It has room for two names and a
// resource ID, see package codec.
const MaxKeyLength = 4096

// Change sets or removes the record of a key. The removal of a missing record is no error.
type Change = struct {
	Key   string
	Value []byte // nil removes the record
}

// SharedStore is a Store that replicas of one source share; see [SourceOptions].SharedGroup.
type SharedStore interface {
	Store
	// ApplyIf is like Apply if the record of condition.Key has the value condition.Value. A nil
	// condition.Value means that the record must not exist. If the condition does not hold, nothing
	// changes and the error is [ErrCondition].
	ApplyIf(ctx context.Context, condition Change, changes []Change) error
	// Follow calls f with batches until ctx ends or f fails. It returns nil when ctx has ended, f's
	// error, or the reason why it cannot continue. f may keep a batch, but must not change it.
	//
	// First it delivers the state of the store at one moment. If position is empty, the state is the
	// whole content. Otherwise position is that of an earlier batch. The state then has the records
	// that changed between the position and that moment, and the records of keys, with a nil Value
	// for a missing record. The state may come in several parts, and has each key once. Its last
	// part comes even if it has no record. Then f receives each batch that any process applies, once
	// and in the order of the changes.
	//
	// A store need not keep all batches for a slow follower, and a failover of its server may lose
	// some. Follow then returns [ErrBehind], and the caller immediately calls it again with an empty
	// position.
	Follow(ctx context.Context, position string, keys []string, f func(Batch) error) error
}

// Batch is a batch of changes, or a part of a state, that [SharedStore].Follow delivers.
type Batch = struct {
	Changes []Change
	// Position is the position from which a later call of Follow continues after this batch. It is
	// empty in all parts of a state except the last one.
	Position string
}

// ErrCondition is returned by [SharedStore].ApplyIf when the condition does not hold.
var ErrCondition = journal.ErrCondition

// ErrBehind is returned by [SharedStore].Follow when the store cannot deliver the changes since the
// position or the last batch. It is no failure: with an empty position, Follow delivers the whole
// content.
var ErrBehind = journal.ErrBehind

// MemoryStore is a [SharedStore] in memory, for tests and for replicas within one process.
type MemoryStore struct {
	id string // a part of positions: those of other stores are not valid here

	mu        sync.Mutex
	records   map[string][]byte
	revision  int        // number of the last batch
	recent    [][]string // the keys of the last batches, the oldest first
	size      int        // number of keys and batches in recent
	followers map[*memoryFollower]struct{}
}

// maxRecent bounds the keys and batches that a MemoryStore keeps for positions.
const maxRecent = 1 << 16

var _ SharedStore = &MemoryStore{}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{
		id: uuid.NewString(), records: map[string][]byte{}, followers: map[*memoryFollower]struct{}{},
	}
}

// memoryFollower is the queue of one call of Follow.
type memoryFollower struct {
	batches []Batch
	wake    wait.Signal
}

// Load implements [Store].
func (s *MemoryStore) Load(ctx context.Context, f func(key string, value []byte) error) error {
	s.mu.Lock()
	records := maps.Clone(s.records)
	s.mu.Unlock()
	for key, value := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Apply implements [Store]. Its only error is ctx's.
func (s *MemoryStore) Apply(ctx context.Context, changes []Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyLocked(changes)
	return nil
}

// ApplyIf implements [SharedStore]. Its errors are [ErrCondition] and ctx's.
func (s *MemoryStore) ApplyIf(ctx context.Context, condition Change, changes []Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.records[condition.Key]
	if ok != (condition.Value != nil) || !bytes.Equal(value, condition.Value) {
		return ErrCondition
	}
	s.applyLocked(changes)
	return nil
}

// applyLocked makes changes and queues them for followers.
func (s *MemoryStore) applyLocked(changes []Change) {
	keys := make([]string, len(changes))
	for i, c := range changes {
		keys[i] = c.Key
		if c.Value == nil {
			delete(s.records, c.Key)
		} else {
			s.records[c.Key] = c.Value
		}
	}
	s.revision++
	s.recent = append(s.recent, keys)
	s.size += 1 + len(keys)
	for s.size > maxRecent {
		s.size -= 1 + len(s.recent[0])
		s.recent = s.recent[1:]
	}
	batch := Batch{slices.Clone(changes), s.positionLocked()}
	for f := range s.followers {
		f.addLocked(batch)
	}
}

// positionLocked returns the position of the last batch.
func (s *MemoryStore) positionLocked() string { return fmt.Sprintf("%s/%d", s.id, s.revision) }

// Follow implements [SharedStore].
func (s *MemoryStore) Follow(ctx context.Context, position string, keys []string, f func(Batch) error) error {
	q := &memoryFollower{wake: wait.NewSignal()}
	s.mu.Lock()
	state, err := s.stateLocked(position, keys)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	q.addLocked(state)
	s.followers[q] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followers, q)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
		}
		s.mu.Lock()
		batches := q.batches
		q.batches = nil
		s.mu.Unlock()
		for _, batch := range batches {
			if ctx.Err() != nil {
				return nil
			}
			if err := f(batch); err != nil {
				return err
			}
		}
	}
}

// stateLocked returns the state that Follow delivers first.
func (s *MemoryStore) stateLocked(position string, keys []string) (Batch, error) {
	if position == "" {
		keys = slices.Collect(maps.Keys(s.records))
	} else {
		id, number, _ := strings.Cut(position, "/")
		revision, err := strconv.Atoi(number)
		behind := s.revision - revision
		if err != nil || id != s.id || behind < 0 || behind > len(s.recent) {
			return Batch{}, ErrBehind
		}
		keys = slices.Concat(slices.Concat(s.recent[len(s.recent)-behind:]...), keys)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	changes := make([]Change, len(keys))
	for i, key := range keys {
		changes[i] = Change{key, s.records[key]}
	}
	return Batch{changes, s.positionLocked()}, nil
}

// addLocked queues a batch.
func (q *memoryFollower) addLocked(batch Batch) {
	q.batches = append(q.batches, batch)
	q.wake.Set()
}
