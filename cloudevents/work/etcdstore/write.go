// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

const (
	// opBytes is the size of an operation in a request without its key and value.
	opBytes = 32
	// reservedBytes is the part of MaxRequestBytes for conditions, and for two long keys.
	reservedBytes = 32 << 10
	// reservedOps is the number of operations that the last transaction of a copy adds.
	reservedOps = 2
)

// Apply implements [work.Store]. Errors are [ErrUnreachable], [ErrForeign], [ErrClosed], ctx's, and
// those of etcd: see [Open].
func (s *Store) Apply(ctx context.Context, changes []work.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	return s.write(ctx, nil, changes)
}

// ApplyIf implements [work.SharedStore]. Errors are [work.ErrCondition] and those of Apply.
func (s *Store) ApplyIf(ctx context.Context, condition work.Change, changes []work.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(ctx, []clientv3.Cmp{s.condition(condition)}, changes)
}

// condition is true if the record has the value of c.
func (s *Store) condition(c work.Change) clientv3.Cmp {
	key := s.keys.record(c.Key)
	if c.Value == nil {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(key), "=", recordValue(c.Value))
}

// write makes changes if conditions are true.
func (s *Store) write(ctx context.Context, conditions []clientv3.Cmp, changes []work.Change) error {
	caller := ctx
	ctx, cancel := s.until(ctx)
	defer cancel()
	ops, small := s.direct(changes)
	var id string
	if !small {
		var err error
		if ops, id, err = s.split(ctx, changes); err != nil {
			s.unstage(caller, id)
			return s.failure(caller, "stage a batch", err)
		}
		if id != "" {
			conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(s.keys.stage(id)), ">", 0))
		}
	}
	revision, err := s.commitIf(ctx, conditions, ops, id)
	switch {
	case errors.Is(err, work.ErrCondition), errors.Is(err, ErrForeign), errors.Is(err, errCollected):
		s.unstage(caller, id)
		return err
	case err != nil: // the batch may have been committed
		return s.failure(caller, "write", err)
	case small:
		s.forgetChunks(changes)
		return nil
	}
	// The batch is committed. If the copy fails, the next writer repeats it.
	if err := s.complete(ctx, revision, id, changes); err != nil && ctx.Err() == nil {
		s.logger.V(2).Info("Failed to copy a committed batch, it is repeated", "err", err)
	}
	return nil
}

// commitIf runs the operations if the conditions are true. It first completes the pending batch of
// another writer. It returns the revision of the transaction.
func (s *Store) commitIf(ctx context.Context, conditions []clientv3.Cmp, ops []clientv3.Op, id string) (int64, error) {
	conditions = append(conditions,
		clientv3.Compare(clientv3.Value(s.keys.format()), "=", formatValue),
		clientv3.Compare(clientv3.CreateRevision(s.keys.pending()), "=", 0))
	writer := s.keys.writer(s.id)
	reads := []clientv3.Op{clientv3.OpGet(s.keys.format()), clientv3.OpGet(s.keys.pending()), clientv3.OpGet(writer)}
	if id != "" {
		reads = append(reads, clientv3.OpGet(s.keys.stage(id), clientv3.WithKeysOnly()))
	}
	for {
		fence, err := s.fenceRevision(ctx)
		if err != nil {
			return 0, err
		}
		fenced := append(slices.Clip(conditions), clientv3.Compare(clientv3.ModRevision(writer), "=", fence))
		r, err := s.commit(ctx, transaction{fenced, ops, reads})
		if err != nil {
			s.dropFence(fence)
			return 0, err
		}
		if r.Succeeded {
			return r.Header.Revision, nil
		}
		found := make([]*mvccpb.KeyValue, len(reads))
		for i := range reads {
			if kvs := r.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
				found[i] = kvs[0]
			}
		}
		switch {
		case found[0] == nil:
			return 0, fmt.Errorf("%w: the key %q was removed", ErrForeign, s.keys.format())
		case string(found[0].Value) != formatValue:
			return 0, s.checkFormat(found[0].Value)
		case found[1] != nil:
			if err := s.completeOther(ctx, found[1], r.Header.Revision); err != nil {
				return 0, err
			}
		case found[2] == nil || found[2].ModRevision != fence:
			s.dropFence(fence)
		case id != "" && found[3] == nil:
			return 0, errCollected
		default:
			return 0, work.ErrCondition
		}
	}
}

// fenceRevision returns the revision of this Store's key under writer. All its batches have the
// condition that this is still the revision. So after an error, etcd cannot commit the batch behind
// later ones: the next write sets the key again first.
func (s *Store) fenceRevision(ctx context.Context) (int64, error) {
	select {
	case s.fencing <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-s.fencing }()
	s.mu.Lock()
	fence := s.fence
	s.mu.Unlock()
	if fence > 0 {
		return fence, nil
	}
	format := s.keys.format()
	r, err := s.commit(ctx, transaction{
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.Value(format), "=", formatValue)},
		ops:        []clientv3.Op{clientv3.OpPut(s.keys.writer(s.id), "")},
		otherwise:  []clientv3.Op{clientv3.OpGet(format)},
	})
	if err != nil {
		return 0, err
	}
	if !r.Succeeded {
		if found := r.Responses[0].GetResponseRange().GetKvs(); len(found) > 0 {
			return 0, s.checkFormat(found[0].Value)
		}
		return 0, fmt.Errorf("%w: the key %q was removed", ErrForeign, format)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence = r.Header.Revision
	return s.fence, nil
}

// dropFence makes the next write set the fence again, if it is still this one.
func (s *Store) dropFence(fence int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fence == fence {
		s.fence = 0
	}
}

// transaction is a transaction of etcd.
type transaction struct {
	conditions     []clientv3.Cmp
	ops, otherwise []clientv3.Op
}

func (s *Store) commit(ctx context.Context, t transaction) (*clientv3.TxnResponse, error) {
	t.ops = nested(t.ops, s.options.MaxTxnOps)
	return limited(ctx, s.options.Timeout, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(t.conditions...).Then(t.ops...).Else(t.otherwise...).Commit()
	})
}

// etcd's limit of operations is for the sum of the lists in a path of nested transactions. So a
// transaction with half as many nested ones has the square of that.

// nested returns the operations as nested transactions, if there are more than limit.
func nested(ops []clientv3.Op, limit int) []clientv3.Op {
	if len(ops) <= limit {
		return ops
	}
	n := 2
	for n < limit/2 && n*(limit-n) < len(ops) {
		n++
	}
	var out []clientv3.Op
	for group := range slices.Chunk(ops, (len(ops)+n-1)/n) {
		out = append(out, clientv3.OpTxn(nil, group, nil))
	}
	return out
}

// mostOps is the maximum number of operations of a transaction.
func (s *Store) mostOps() int { return s.options.MaxTxnOps / 2 * (s.options.MaxTxnOps / 2) }

// direct returns the operations of a batch that fits into one transaction. ok is false if it does
// not fit.
func (s *Store) direct(changes []work.Change) (ops []clientv3.Op, ok bool) {
	if len(changes) > s.mostOps() {
		return nil, false
	}
	var removed []work.Change
	size := reservedBytes
	for _, c := range changes {
		if len(c.Value) > chunkBytes {
			return nil, false
		}
		size += s.opBytes(c)
		if c.Value == nil {
			removed = append(removed, work.Change{Key: c.Key})
			size += opBytes + len(c.Key)
		}
		ops = append(ops, s.recordOps(c)...)
	}
	if removed != nil { // etcd reports no event for a missing record
		ops = append(ops, clientv3.OpPut(s.keys.removed(), string(encodeChanges(removed))))
	}
	return ops, size <= s.options.MaxRequestBytes && len(ops) <= s.mostOps()
}

// opBytes is the size of a change in a request, without the prefix twice.
func (s *Store) opBytes(c work.Change) int {
	return opBytes + 2*(len(s.keys)+len(c.Key)) + len(c.Value)
}

// recordOps returns the operations that set or remove a record of one key.
func (s *Store) recordOps(c work.Change) []clientv3.Op {
	key := s.keys.record(c.Key)
	if c.Value == nil {
		return []clientv3.Op{clientv3.OpDelete(key, clientv3.WithRange(s.keys.recordEnd(c.Key)))}
	}
	ops := []clientv3.Op{clientv3.OpPut(key, recordValue(c.Value))}
	if s.mayHaveChunks(c.Key) {
		ops = append(ops, clientv3.OpDelete(s.keys.chunk(c.Key, 0), clientv3.WithRange(s.keys.recordEnd(c.Key))))
	}
	return ops
}

// split returns the operation that commits a batch that is too large for one transaction. If the
// batch is too large for one request, split has staged its parts under id.
func (s *Store) split(ctx context.Context, changes []work.Change) (ops []clientv3.Op, id string, err error) {
	content := encodeChanges(changes)
	part := s.options.MaxRequestBytes - reservedBytes
	if len(content) <= part {
		return []clientv3.Op{clientv3.OpPut(s.keys.pending(), string(inline)+string(content))}, "", nil
	}
	id = rand.Text()
	batch := piecesOf(id, content, part)
	intent := s.keys.stage(id)
	for n := 0; len(content) > 0; n++ {
		size := min(part, len(content))
		order := ">" // the first part is the first one with this ID, later ones need it
		if n == 0 {
			order = "="
		}
		r, err := s.commit(ctx, transaction{
			conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(intent), order, 0)},
			ops: []clientv3.Op{
				clientv3.OpPut(intent, strconv.Itoa(n)), clientv3.OpPut(s.keys.part(id, n), string(content[:size])),
			},
		})
		if err != nil {
			return nil, id, err
		}
		if !r.Succeeded {
			return nil, id, errCollected
		}
		content = content[size:]
	}
	return []clientv3.Op{clientv3.OpPut(s.keys.pending(), batch.encode())}, id, nil
}

// unstage removes the parts of a batch that was not committed. If that fails, cleanUp repeats it.
func (s *Store) unstage(ctx context.Context, id string) {
	if id == "" {
		return
	}
	ctx, cancel := s.until(context.WithoutCancel(ctx))
	defer cancel()
	_, _ = limited(ctx, s.options.Timeout, func(ctx context.Context) (*clientv3.DeleteResponse, error) {
		return s.client.Delete(ctx, s.keys.stage(id), clientv3.WithRange(s.keys.stageEnd(id)))
	})
}

// completeOther copies the pending batch of another writer to its records. revision is a revision
// at which the batch was pending.
func (s *Store) completeOther(ctx context.Context, pending *mvccpb.KeyValue, revision int64) error {
	id, changes, err := s.readPending(ctx, pending.Value, revision)
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // the caller reads the pending batch again
	}
	if err != nil {
		return err
	}
	return s.complete(ctx, pending.ModRevision, id, changes)
}

// complete copies a pending batch to its records, and then removes it. It returns nil if another
// process has removed it.
func (s *Store) complete(ctx context.Context, revision int64, id string, changes []work.Change) error {
	last := []clientv3.Op{clientv3.OpDelete(s.keys.pending())}
	if id != "" {
		last = append(last, clientv3.OpDelete(s.keys.stage(id), clientv3.WithRange(s.keys.stageEnd(id))))
	}
	var ops []clientv3.Op
	size := reservedBytes
	flush := func() (bool, error) {
		r, err := s.commit(ctx, transaction{
			conditions: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.keys.pending()), "=", revision)},
			ops:        ops,
		})
		if err != nil {
			return false, err
		}
		ops, size = nil, reservedBytes
		return r.Succeeded, nil
	}
	for c := range slices.Values(changes) {
		for op := range slices.Values(s.copyOps(c)) {
			cost := opBytes + len(op.KeyBytes()) + len(op.RangeBytes()) + len(op.ValueBytes())
			if len(ops) == s.mostOps()-reservedOps || size+cost > s.options.MaxRequestBytes {
				if ok, err := flush(); !ok {
					return err
				}
			}
			ops, size = append(ops, op), size+cost
		}
	}
	ops = append(ops, last...)
	_, err := flush()
	if err == nil {
		s.forgetChunks(changes)
	}
	return err
}

// copyOps returns the operations that set or remove a record of any size. They may be in several
// transactions.
func (s *Store) copyOps(c work.Change) []clientv3.Op {
	if len(c.Value) <= chunkBytes {
		return s.recordOps(c)
	}
	s.rememberChunks(c.Key)
	ops := []clientv3.Op{clientv3.OpPut(s.keys.record(c.Key), recordValue(c.Value))}
	n := 0
	for chunk := range slices.Chunk(c.Value, chunkBytes) {
		ops = append(ops, clientv3.OpPut(s.keys.chunk(c.Key, n), string(chunk)))
		n++
	}
	return append(ops, clientv3.OpDelete(s.keys.chunk(c.Key, n), clientv3.WithRange(s.keys.recordEnd(c.Key))))
}

// A small value does not remove the chunks of an earlier large one, because that would cost an
// operation for each record. So the Store remembers the records that have chunks. If it misses
// one, its chunks remain until the record is removed.

func (s *Store) mayHaveChunks(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.chunks[key]
	return ok
}

func (s *Store) rememberChunks(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks[key] = struct{}{}
}

// forgetChunks is called after changes were made.
func (s *Store) forgetChunks(changes []work.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.chunks) == 0 {
		return
	}
	for _, c := range changes {
		if len(c.Value) <= chunkBytes {
			delete(s.chunks, c.Key)
		}
	}
}
