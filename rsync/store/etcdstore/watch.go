// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/rsync/store"
)

func keyValue(kv *mvccpb.KeyValue) store.KeyValue {
	return store.KeyValue{
		Key: string(kv.Key), Value: kv.Value, Lease: store.Lease(kv.Lease),
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
	}
}

// Watch implements [store.Data]. After a broken connection the client resumes the watch.
func (s *Store) Watch(ctx context.Context, prefix string, fromRevision int64) <-chan store.Watched {
	out := make(chan store.Watched)
	go func() {
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		options := []clientv3.OpOption{clientv3.WithPrefix()}
		if fromRevision > 0 {
			options = append(options, clientv3.WithRev(fromRevision))
		}
		// A server that has lost its quorum receives no changes. It reports that only with
		// RequireLeader.
		for response := range s.watcher.Watch(clientv3.WithRequireLeader(ctx), prefix, options...) {
			message := watched(ctx, response)
			if message.Err == nil && len(message.Events) == 0 {
				continue
			}
			select {
			case out <- message:
			case <-ctx.Done():
				return
			}
			if message.Err != nil {
				return
			}
		}
		if ctx.Err() == nil { // the client was closed
			select {
			case out <- store.Watched{Err: store.ErrClosed}:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func watched(ctx context.Context, response clientv3.WatchResponse) store.Watched {
	if response.CompactRevision != 0 {
		return store.Watched{Err: store.ErrCompacted}
	}
	if err := response.Err(); err != nil {
		return store.Watched{Err: failure(ctx, "watch", err)}
	}
	out := store.Watched{Revision: response.Header.Revision, Events: make([]store.Event, len(response.Events))}
	for i, e := range response.Events {
		out.Events[i] = store.Event{Deleted: e.Type == clientv3.EventTypeDelete, KV: keyValue(e.Kv)}
		out.Revision = e.Kv.ModRevision
	}
	return out
}

// Grant implements [store.Leases].
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	seconds := int64((ttl + time.Second - 1) / time.Second)
	response, err := s.lease.Grant(ctx, seconds)
	if err != nil {
		return 0, failure(ctx, "grant a lease", err)
	}
	return store.Lease(response.ID), nil
}

// KeepAlive implements [store.Leases].
func (s *Store) KeepAlive(ctx context.Context, lease store.Lease) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if _, err := s.lease.KeepAliveOnce(ctx, clientv3.LeaseID(lease)); err != nil {
		return failure(ctx, "renew a lease", err)
	}
	return nil
}

// Revoke implements [store.Leases].
func (s *Store) Revoke(ctx context.Context, lease store.Lease) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	if _, err := s.lease.Revoke(ctx, clientv3.LeaseID(lease)); err != nil {
		if err := failure(ctx, "end a lease", err); !errors.Is(err, store.ErrLeaseNotFound) {
			return err
		}
	}
	return nil
}
