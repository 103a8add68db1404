// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/spokewire/sdk-go/internal/wait"
)

// ErrConflict is returned by a [Store] if a record does not have the expected version.
var ErrConflict = errors.New("the record has another version")

// Record is a value of a [Store] with its key. Keys have at most 256 bytes, and values 4 KiB.
type Record struct {
	Key   string
	Value []byte
	// Version changes with each Put. 0 means that the record does not exist.
	Version int64
}

// Store keeps the records of a [Server]. Its methods may be called from any goroutine. Secrets of
// tokens are hashed, but a writer of the store can admit any cluster.
type Store interface {
	// Get returns a record. A record that does not exist has the Version 0, which is no error.
	Get(ctx context.Context, key string) (Record, error)
	// List returns all records.
	List(ctx context.Context) ([]Record, error)
	// Put writes the value of a record if the record in the store has r.Version, and otherwise
	// returns ErrConflict. A nil Value deletes the record.
	Put(ctx context.Context, r Record) error
	// Watch sends a value when records may have changed after the call, at the latest when they have
	// been stored for a few seconds. It closes the channel when ctx ends, or when the watch fails.
	Watch(ctx context.Context) <-chan struct{}
}

// MemoryStore is a [Store] in memory, for tests and Examples. The zero value is empty.
type MemoryStore struct {
	mu      sync.Mutex
	version int64
	records map[string]Record
	changed wait.Broadcast
}

// Get implements [Store].
func (m *MemoryStore) Get(_ context.Context, key string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[key]
	r.Key = key
	return r, nil
}

// List implements [Store].
func (m *MemoryStore) List(context.Context) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.records)), nil
}

// Put implements [Store].
func (m *MemoryStore) Put(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[r.Key].Version != r.Version {
		return ErrConflict
	}
	m.version++
	r.Version = m.version
	if m.records == nil {
		m.records = map[string]Record{}
	}
	if m.records[r.Key] = r; r.Value == nil {
		delete(m.records, r.Key)
	}
	m.changed.Wake()
	return nil
}

// Watch implements [Store].
func (m *MemoryStore) Watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	m.mu.Lock()
	next := m.changed.Next()
	m.mu.Unlock()
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case <-next:
			}
			m.mu.Lock()
			next = m.changed.Next()
			m.mu.Unlock()
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}
