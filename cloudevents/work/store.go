// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

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
	// [NewAgent] call it with a context that does not end, and wait for it. f must not change the
	// value, or keep it after it has returned. If a record cannot be read, the source or agent does
	// not start, and the error names the record. Without the record, a peer would delete the work.
	Load(ctx context.Context, f func(key string, value []byte) error) error
	// Apply makes all changes or no change. When it returns nil, the changes survive a crash of the
	// process and a power failure. When it returns an error, they may or may not have been made,
	// and the caller repeats them with later changes. A record that always fails blocks all others,
	// and Healthy returns the error. Each key occurs once. Apply may keep the values, but must not
	// change them.
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
	// Follow calls f with the whole content, as one batch. Then it calls f with each batch that any
	// process applies, in the order of the changes, until ctx ends or f fails. It returns nil when
	// ctx has ended, f's error, or the reason why it cannot continue. f receives each batch once
	// and must not change it. A store need not keep all batches for a slow follower, and a failover
	// of its server may have lost some: then Follow returns [ErrBehind], and the caller immediately
	// calls it again.
	Follow(ctx context.Context, f func(changes []Change) error) error
}

// ErrCondition is returned by [SharedStore].ApplyIf when the condition does not hold.
var ErrCondition = journal.ErrCondition

// ErrBehind is returned by [SharedStore].Follow when the store cannot deliver the batch that follows
// the last one. It is no failure: the next call of Follow delivers the whole content.
var ErrBehind = journal.ErrBehind

// MemoryStore is a [SharedStore] in memory, for tests and for replicas within one process.
type MemoryStore struct {
	mu        sync.Mutex
	records   map[string][]byte
	followers map[*memoryFollower]struct{}
}

var _ SharedStore = &MemoryStore{}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{records: map[string][]byte{}, followers: map[*memoryFollower]struct{}{}}
}

// memoryFollower is the queue of one call of Follow.
type memoryFollower struct {
	batches [][]Change
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
	for _, c := range changes {
		if c.Value == nil {
			delete(s.records, c.Key)
		} else {
			s.records[c.Key] = c.Value
		}
	}
	batch := slices.Clone(changes)
	for f := range s.followers {
		f.addLocked(batch)
	}
}

// Follow implements [SharedStore].
func (s *MemoryStore) Follow(ctx context.Context, f func(changes []Change) error) error {
	q := &memoryFollower{wake: wait.NewSignal()}
	s.mu.Lock()
	content := make([]Change, 0, len(s.records))
	for key, value := range s.records {
		content = append(content, Change{Key: key, Value: value})
	}
	slices.SortFunc(content, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	q.addLocked(content)
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

// addLocked queues a batch.
func (q *memoryFollower) addLocked(batch []Change) {
	q.batches = append(q.batches, batch)
	q.wake.Set()
}
