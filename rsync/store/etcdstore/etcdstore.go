// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdstore implements package store with etcd 3.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
//	s, err := etcdstore.New(client, etcdstore.Options{Prefix: "/shop"})
//	engine, err := rsync.New(s, connectors, rsync.Options{})
//
// The caller configures the client, with TLS, credentials and endpoints, and closes it. If the
// server does not answer, a call ends after [Options].Timeout, or earlier when ctx ends.
//
// A transaction that is too large is rejected before it is sent: by default etcd accepts 1.5 MiB
// and 128 operations in one. If the server has other limits (--max-request-bytes, --max-txn-ops),
// set them in Options.
//
// Run each member of etcd with auto-compaction and a quota. Without auto-compaction etcd keeps
// every old value, reaches its quota and rejects all writes:
//
//	etcd --auto-compaction-mode=periodic --auto-compaction-retention=1h --quota-backend-bytes=8589934592
//
// The quota must have room for the current values and for all writes within the retention.
package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Options configures a Store; the zero value is useful.
type Options struct {
	// Prefix is the prefix of each key. With different prefixes several systems can share an etcd.
	// EMCO's keys have no prefix.
	Prefix string
	// Timeout limits a call, in addition to ctx. Defaults to 5 s.
	Timeout time.Duration
	// MaxTxnBytes and MaxTxnOps limit transactions. Set them below the limits of the server. They
	// default to the limits of package store.
	MaxTxnBytes, MaxTxnOps int
}

// Store keeps its data in etcd. All methods may be called from any goroutine.
type Store struct {
	options Options
	kv      clientv3.KV
	lease   clientv3.Lease
	watcher clientv3.Watcher
}

var (
	_ store.Store  = &Store{}
	_ store.Limits = &Store{}
)

// New returns a store that uses a client. It does not connect. It returns an error for invalid
// options.
func New(client *clientv3.Client, options Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("etcdstore.New needs a client")
	}
	if options.Timeout < 0 || options.MaxTxnBytes < 0 || options.MaxTxnOps < 0 {
		return nil, errors.New("the fields of etcdstore.Options must not be negative")
	}
	if options.Timeout == 0 {
		options.Timeout = 5 * time.Second
	}
	if options.MaxTxnBytes == 0 {
		options.MaxTxnBytes = store.DefaultMaxTxnBytes
	}
	if options.MaxTxnOps == 0 {
		options.MaxTxnOps = store.DefaultMaxTxnOps
	}
	s := &Store{options: options, kv: client.KV, lease: client.Lease, watcher: client.Watcher}
	if options.Prefix != "" {
		s.kv = namespace.NewKV(client.KV, options.Prefix)
		s.watcher = namespace.NewWatcher(client.Watcher, options.Prefix)
		s.lease = namespace.NewLease(client.Lease, options.Prefix)
	}
	return s, nil
}

// MaxTxnBytes implements [store.Limits].
func (s *Store) MaxTxnBytes() int { return s.options.MaxTxnBytes }

// MaxTxnOps implements [store.Limits].
func (s *Store) MaxTxnOps() int { return s.options.MaxTxnOps }

func (s *Store) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.options.Timeout, fmt.Errorf("etcd did not answer in %s", s.options.Timeout))
}

// failure returns an error with a description. It translates the errors that have a name in package
// store.
func failure(ctx context.Context, what string, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%s: %w", what, store.ErrLeaseNotFound)
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		return fmt.Errorf("%s: %w", what, store.ErrCompacted)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%s: %w: %w", what, store.ErrTooLarge, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Get implements [store.Data].
func (s *Store) Get(ctx context.Context, key string) (store.KeyValue, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	response, err := s.kv.Get(ctx, key)
	if err != nil {
		return store.KeyValue{}, failure(ctx, "get "+key, err)
	}
	if len(response.Kvs) == 0 {
		return store.KeyValue{Key: key}, nil
	}
	return keyValue(response.Kvs[0]), nil
}

// Range implements [store.Data].
func (s *Store) Range(ctx context.Context, prefix string) (store.RangeResult, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	response, err := s.kv.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return store.RangeResult{}, failure(ctx, "read "+prefix, err)
	}
	out := store.RangeResult{Revision: response.Header.Revision, KVs: make([]store.KeyValue, len(response.Kvs))}
	for i, kv := range response.Kvs {
		out.KVs[i] = keyValue(kv)
	}
	return out, nil
}

// Txn implements [store.Data]. If a condition is not met, the same request reads the keys of all
// conditions.
func (s *Store) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	if err := store.CheckSize(compares, ops, s.options.MaxTxnBytes, s.options.MaxTxnOps); err != nil {
		return store.TxnResult{}, err
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	conditions := make([]clientv3.Cmp, len(compares))
	reads := make([]clientv3.Op, len(compares))
	for i, c := range compares {
		revision := clientv3.ModRevision(c.Key)
		if c.Created {
			revision = clientv3.CreateRevision(c.Key)
		}
		conditions[i] = clientv3.Compare(revision, "=", c.Revision)
		reads[i] = clientv3.OpGet(c.Key)
	}
	writes := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		writes[i] = write(op)
	}
	response, err := s.kv.Txn(ctx).If(conditions...).Then(writes...).Else(reads...).Commit()
	if err != nil {
		return store.TxnResult{}, failure(ctx, "transaction", err)
	}
	out := store.TxnResult{Succeeded: response.Succeeded, Revision: response.Header.Revision}
	if !out.Succeeded {
		out.Current = make([]store.KeyValue, len(compares))
		for i, r := range response.Responses {
			out.Current[i] = store.KeyValue{Key: compares[i].Key}
			if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
				out.Current[i] = keyValue(kvs[0])
			}
		}
	}
	return out, nil
}

func write(op store.Op) clientv3.Op {
	switch op.Kind {
	case store.OpKindDelete:
		return clientv3.OpDelete(op.Key)
	case store.OpKindDeletePrefix:
		return clientv3.OpDelete(op.Key, clientv3.WithPrefix())
	}
	if op.Lease != 0 {
		return clientv3.OpPut(op.Key, string(op.Value), clientv3.WithLease(clientv3.LeaseID(op.Lease)))
	}
	return clientv3.OpPut(op.Key, string(op.Value))
}
