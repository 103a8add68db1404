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

// Store keeps what a [Source] or an [Agent] must not forget when its process ends: its works with their statuses,
// versions and tombstones. Without one, the next process learns all from its peers; see STORES.md.
//
// What is kept are records, opaque values under keys of printable text, of which a source or agent
// has one per work, one per cluster and a few more; in the profile ManifestBundle also one per work
// that is gone, for a day at least. Keys have at most [MaxKeyLength] bytes; values are as large as
// works are. A Store is a place for one source or agent. Package boltstore keeps it in a file,
// [NewMemoryStore] in memory; package storetest checks any other.
//
// All methods may be called from any goroutine, and return soon when their context ends: Start waits for them, and ends
// that of a write which takes longer than Start has at its own end.
type Store interface {
	// Load calls f for each record, in any order, and returns f's first error. [NewSource] and
	// [NewAgent] call it, with a context that does not end, and wait for it. The value must not be
	// kept or changed after f has returned. A record that cannot be read keeps the source or agent
	// from starting, with an error that names it: to go on without it would be to lose a work, and
	// a peer would delete it.
	Load(ctx context.Context, f func(key string, value []byte) error) error
	// Apply makes all changes or none of them. When it returns nil they outlast the process and the machine's power;
	// when it returns an error they may or may not have been made, and the caller repeats them with later
	// changes. One record that always fails blocks all others, and Healthy returns the error. No key comes
	// twice. The values must not be changed, and may be kept.
	Apply(ctx context.Context, changes []Change) error
}

// MaxKeyLength is the longest key of a record in bytes: room for two names and a resource ID, see package codec.
const MaxKeyLength = 4096

// Change sets the record of a key, or removes it: Value is nil then, and a Store need not have the record.
type Change = journal.Change

// SharedStore is a Store that replicas of one source share; see [SourceOptions].SharedGroup.
type SharedStore interface {
	Store
	// ApplyIf is Apply on the condition that a record has a value, nil for none. Where it has another, nothing changes
	// and the error is [ErrCondition].
	ApplyIf(ctx context.Context, condition Change, changes []Change) error
	// Follow calls f with the whole content, as one batch, and then with each batch that anyone
	// applies, in the order in which they were made, until ctx ends or f fails. It returns f's
	// error, or why it cannot go on; nil when ctx has ended. f gets each batch once and must not
	// change it.
	Follow(ctx context.Context, f func(changes []Change) error) error
}

// ErrCondition is returned by [SharedStore].ApplyIf when the condition does not hold.
var ErrCondition = journal.ErrCondition

// MemoryStore is a [SharedStore] that lives as long as the process: for tests, and for replicas within one process.
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

// applyLocked makes changes and tells followers.
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
