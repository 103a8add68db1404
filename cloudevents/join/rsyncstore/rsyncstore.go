// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rsyncstore keeps the tokens and clusters of a [join.Server] in a store of package rsync: in
// PostgreSQL, in etcd, or in the file of a program. Replicas share such a store.
//
//	server, err := join.NewServer(join.ServerOptions{Store: rsyncstore.New(state, "/join/"), ...})
//
// Back the records up with the rest of the store: a server without its records refuses no revoked
// certificate.
package rsyncstore

import (
	"context"
	"strings"

	"github.com/spokewire/sdk-go/cloudevents/join"
	"github.com/spokewire/sdk-go/rsync/store"
)

// Store is a [join.Store]. It may be used concurrently.
type Store struct {
	data   store.Data
	prefix string
}

// New returns a store with a prefix for its keys, for example "/join/", which nothing else may use.
// Its methods return the errors of data, and [join.ErrConflict].
func New(data store.Data, prefix string) *Store { return &Store{data, prefix} }

func (s *Store) record(kv store.KeyValue) join.Record {
	return join.Record{Key: strings.TrimPrefix(kv.Key, s.prefix), Value: kv.Value, Version: kv.ModRevision}
}

// Get implements [join.Store].
func (s *Store) Get(ctx context.Context, key string) (join.Record, error) {
	kv, err := s.data.Get(ctx, s.prefix+key)
	r := s.record(kv)
	r.Key = key
	return r, err
}

// List implements [join.Store].
func (s *Store) List(ctx context.Context) ([]join.Record, error) {
	all, err := s.data.Range(ctx, s.prefix)
	out := make([]join.Record, len(all.KVs))
	for i, kv := range all.KVs {
		out[i] = s.record(kv)
	}
	return out, err
}

// Put implements [join.Store].
func (s *Store) Put(ctx context.Context, r join.Record) error {
	key := s.prefix + r.Key
	op := store.Put(key, r.Value)
	if r.Value == nil {
		op = store.Delete(key)
	}
	result, err := s.data.Txn(ctx, []store.Compare{{Key: key, Revision: r.Version}}, []store.Op{op})
	if err == nil && !result.Succeeded {
		return join.ErrConflict
	}
	return err
}

// Watch implements [join.Store].
func (s *Store) Watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	events := s.data.Watch(ctx, s.prefix, 0)
	go func() {
		defer close(out)
		for watched := range events {
			if watched.Err != nil {
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}
