// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package memstore implements package store in memory. It is for tests and Examples, and the
// reference for the behaviour of a store.
//
//	s := memstore.New(memstore.Options{})
//	engine, err := rsync.New(s, connectors, rsync.Options{})
//
// The store keeps the last [Options].History events, so watches can begin in the past. Several
// engines in one process may share a store. The store has timers for its leases, and goroutines
// only for watches, until their ctx ends.
package memstore

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Options configures a Store; the zero value is useful.
type Options struct {
	// History is the number of events that the store keeps for watches. Defaults to 100,000.
	History int
	// Revision is the revision of the empty store. Set it to the last revision of another store
	// that you copy, so revisions are not repeated. Watches from earlier revisions return
	// ErrCompacted. Defaults to 0.
	Revision int64
	// MaxTxnBytes and MaxTxnOps limit transactions. They default to the limits of package store.
	MaxTxnBytes, MaxTxnOps int
	// Clock defaults to the real clock.
	Clock clock.WithDelayedExecution
}

// Store keeps its data in memory. All methods may be called from any goroutine.
type Store struct {
	options Options

	mu       sync.Mutex
	revision int64
	data     map[string]*store.KeyValue
	keys     []string // sorted
	log      []logged
	dropped  int64 // the last revision that the log no longer has
	watches  map[*watch]struct{}
	leases   map[store.Lease]*lease
	last     store.Lease
	counts   Counts
}

// Counts has the numbers of calls of a store.
type Counts struct{ Gets, Ranges, Txns, KeepAlives int }

type logged struct {
	revision int64
	event    store.Event
}

type lease struct {
	ttl   time.Duration
	timer clock.Timer
	ends  time.Time
}

var (
	_ store.Store  = &Store{}
	_ store.Limits = &Store{}
)

// New returns an empty store.
func New(options Options) *Store {
	if options.History == 0 {
		options.History = 100_000
	}
	if options.MaxTxnBytes == 0 {
		options.MaxTxnBytes = store.DefaultMaxTxnBytes
	}
	if options.MaxTxnOps == 0 {
		options.MaxTxnOps = store.DefaultMaxTxnOps
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Store{
		options: options, revision: options.Revision, dropped: options.Revision, data: map[string]*store.KeyValue{},
		watches: map[*watch]struct{}{}, leases: map[store.Lease]*lease{},
	}
}

// MaxTxnBytes implements [store.Limits].
func (s *Store) MaxTxnBytes() int { return s.options.MaxTxnBytes }

// MaxTxnOps implements [store.Limits].
func (s *Store) MaxTxnOps() int { return s.options.MaxTxnOps }

// Counts returns the numbers of calls since New. Watches are not counted.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Len returns the number of keys.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// Get implements [store.Data].
func (s *Store) Get(ctx context.Context, key string) (store.KeyValue, error) {
	if err := ctx.Err(); err != nil {
		return store.KeyValue{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Gets++
	return s.get(key), nil
}

func (s *Store) get(key string) store.KeyValue {
	if kv := s.data[key]; kv != nil {
		return *kv
	}
	return store.KeyValue{Key: key}
}

// Range implements [store.Data].
func (s *Store) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	if err := ctx.Err(); err != nil {
		return store.RangeResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Ranges++
	out := store.RangeResult{Revision: s.revision}
	for i := sort.SearchStrings(s.keys, prefix); i < len(s.keys) && strings.HasPrefix(s.keys[i], prefix); i++ {
		out.KVs = append(out.KVs, *s.data[s.keys[i]])
	}
	return out, nil
}

// Txn implements [store.Data].
func (s *Store) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	if err := ctx.Err(); err != nil {
		return store.TxnResult{}, err
	}
	if err := store.CheckSize(compares, ops, s.options.MaxTxnBytes, s.options.MaxTxnOps); err != nil {
		return store.TxnResult{}, err
	}
	if err := store.CheckKeys(ops); err != nil {
		return store.TxnResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Txns++
	out := store.TxnResult{Succeeded: true}
	for _, c := range compares {
		kv := s.get(c.Key)
		have := kv.ModRevision
		if c.Created {
			have = kv.CreateRevision
		}
		out.Succeeded = out.Succeeded && have == c.Revision
		out.Current = append(out.Current, kv)
	}
	if out.Succeeded {
		out.Current = nil
		for _, op := range ops {
			if op.Lease != 0 && s.leases[op.Lease] == nil {
				return store.TxnResult{}, store.ErrLeaseNotFound
			}
		}
		s.commit(ops)
	}
	out.Revision = s.revision
	return out, nil
}
