// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// Change sets the record of a key, or removes it.
type Change struct {
	Key string
	// Value is the new value; nil removes the record, if there is one.
	Value []byte
}

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
var ErrCondition = errors.New("a record of the store has another value than the change was made for")

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
	wake    chan struct{} // has room for one token
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
	s.apply(changes)
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
	s.apply(changes)
	return nil
}

// apply makes changes and tells followers. The lock is held.
func (s *MemoryStore) apply(changes []Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s.records, c.Key)
		} else {
			s.records[c.Key] = c.Value
		}
	}
	batch := slices.Clone(changes)
	for f := range s.followers {
		f.add(batch)
	}
}

// Follow implements [SharedStore].
func (s *MemoryStore) Follow(ctx context.Context, f func(changes []Change) error) error {
	q := &memoryFollower{wake: make(chan struct{}, 1)}
	s.mu.Lock()
	content := make([]Change, 0, len(s.records))
	for key, value := range s.records {
		content = append(content, Change{key, value})
	}
	slices.SortFunc(content, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	q.add(content)
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

// add queues a batch. The store's lock is held.
func (q *memoryFollower) add(batch []Change) {
	q.batches = append(q.batches, batch)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Keys of records. Names have no slash, so the first one after the prefix ends a name; resource IDs may be anything.
const (
	keyMeta       = "meta"
	prefixWork    = "work/"
	prefixPast    = "past/"
	prefixCluster = "cluster/"
)

func workKey(owner, id string) string { return prefixWork + owner + "/" + id }

func pastKey(cluster, id string) string { return prefixPast + cluster + "/" + id }

// parseKey splits what workKey or pastKey has made.
func parseKey(prefix, key string) (owner, id string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// storedMeta is the record that says whose the store is.
type storedMeta struct {
	// Format is 1.
	Format int `json:"format"`
	// Kind is "source" or "agent", Name the source's ID or the agent's cluster, Profile the name of the wire format.
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Profile string `json:"profile"`
	// ResourceVersion is the last that was given to an object: the next process goes on above it.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Complete is the source's inventory, Asked what goes with it in a strict profile.
	Complete bool `json:"complete,omitempty"`
	Asked    bool `json:"asked,omitempty"`
	// Synced is whether the agent has completed an initial sync, Sources are those that it waited for; nil are all.
	Synced  bool     `json:"synced,omitempty"`
	Sources []string `json:"sources,omitempty"`
}

const storeFormat = 1

// errUnknownRecord is for a key that this version does not write.
var errUnknownRecord = errors.New("a later version wrote it, or something else than a source or an agent")

// check refuses the store of another source or agent.
func (m *storedMeta) check(want storedMeta) error {
	switch {
	case m.Format != want.Format:
		return fmt.Errorf("the store has format %d, and this version reads format %d", m.Format, want.Format)
	case m.Kind != want.Kind || m.Name != want.Name:
		return fmt.Errorf("the store is that of %s %q, not of %s %q: give each its own", m.Kind, m.Name, want.Kind, want.Name)
	case m.Profile != want.Profile:
		return fmt.Errorf("the store was written with profile %s, not %s, whose versions are others: begin with an empty one",
			m.Profile, want.Profile)
	}
	return nil
}
