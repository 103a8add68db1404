// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
)

// cleanUp looks for the rest of interrupted batches until the store is closed. It completes a
// pending batch, and removes staged parts, if they have not changed since the last search.
func (s *Store) cleanUp() {
	seen := map[string]int64{}
	failing := false
	for wait.Sleep(s.life, clock.RealClock{}, s.options.CleanupInterval) == nil {
		found, err := s.searchRest(s.life, seen)
		if err != nil && !failing && s.life.Err() == nil {
			s.logger.Error(s.failure(s.life, "clean up", err), "Failed to remove the rest of interrupted batches, retrying",
				"prefix", string(s.keys))
		}
		if failing = err != nil; !failing {
			seen = found
		}
	}
}

// searchRest returns the revisions of the pending batch and of staged batches. seen are those of the
// last search.
func (s *Store) searchRest(ctx context.Context, seen map[string]int64) (map[string]int64, error) {
	r, err := s.commit(ctx, transaction{ops: []clientv3.Op{
		clientv3.OpGet(s.keys.pending()), clientv3.OpGet(s.keys.staged(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(s.keys.writers(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	}})
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	unchanged := func(kv *mvccpb.KeyValue) bool {
		found[string(kv.Key)] = kv.ModRevision
		return seen[string(kv.Key)] == kv.ModRevision
	}
	if kvs := r.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		if !unchanged(kvs[0]) {
			return found, nil
		}
		if err := s.completeOther(ctx, kvs[0], r.Header.Revision); err != nil {
			return nil, err
		}
		s.logger.Info("Completed the batch of a writer that ended", "prefix", string(s.keys))
		return found, nil
	}
	for _, kv := range r.Responses[1].GetResponseRange().GetKvs() {
		id := strings.TrimPrefix(string(kv.Key), s.keys.staged())
		if strings.Contains(id, "/") || !unchanged(kv) {
			continue // a part
		}
		removed, err := s.commit(ctx, transaction{
			conditions: []clientv3.Cmp{
				clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision),
				clientv3.Compare(clientv3.CreateRevision(s.keys.pending()), "=", 0),
			},
			ops: []clientv3.Op{clientv3.OpDelete(string(kv.Key), clientv3.WithRange(s.keys.stageEnd(id)))},
		})
		if err != nil {
			return nil, err
		}
		if removed.Succeeded {
			s.logger.Info("Removed the staged parts of a writer that ended", "prefix", string(s.keys))
		}
	}
	for _, kv := range r.Responses[2].GetResponseRange().GetKvs() {
		if !unchanged(kv) {
			continue
		}
		if _, err := s.commit(ctx, transaction{ // a Store that still runs sets it again
			conditions: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)},
			ops:        []clientv3.Op{clientv3.OpDelete(string(kv.Key))},
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}
