// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// Limits of a page of records. etcd counts all later records for each page, so small pages are slow.
// Pages begin small and grow until they have pageBytes.
const (
	leastPage = 64
	mostPage  = 4096
	growth    = 4 // of a page over the last one, at most
	pageBytes = 4 << 20
)

// snapshotAttempts is how often a snapshot is read when etcd compacts its revision meanwhile.
const snapshotAttempts = 5

// limited calls f with a context that ends after limit. Its cause is then a timeout.
func limited[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	late := &timeout{limit.String()}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	out, err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		err = fmt.Errorf("%w: %w", late, err)
	}
	return out, err
}

func (s *Store) get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return limited(ctx, s.options.Timeout, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, key, options...)
	})
}

// Load implements [work.Store]. It reads one consistent state into memory before it calls f.
// Errors are [ErrDamaged] and those of Apply.
func (s *Store) Load(ctx context.Context, f func(key string, value []byte) error) error {
	content, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	for i := range content.records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(content.records[i].Key, content.records[i].Value); err != nil {
			return err
		}
		content.records[i] = work.Change{} // its memory is free
	}
	return nil
}

// snapshot is the content of the store at a revision of the etcd with the ID cluster. pending is
// whether a batch was pending, which the records include.
type snapshot struct {
	records  []work.Change
	cluster  uint64
	revision int64
	pending  bool
}

func (s *Store) snapshot(ctx context.Context) (snapshot, error) {
	caller := ctx
	ctx, cancel := s.until(ctx)
	defer cancel()
	for attempt := 1; ; attempt++ {
		content, err := s.readSnapshot(ctx)
		switch {
		case err == nil:
			return content, nil
		case errors.Is(err, ErrForeign), errors.Is(err, ErrDamaged):
			return content, err
		case !errors.Is(err, rpctypes.ErrCompacted) || attempt == snapshotAttempts:
			return content, s.failure(caller, "read the store", err)
		}
	}
}

func (s *Store) readSnapshot(ctx context.Context) (snapshot, error) {
	first, err := s.commit(ctx, transaction{ops: []clientv3.Op{
		clientv3.OpGet(s.keys.format()), clientv3.OpGet(s.keys.pending()),
	}})
	if err != nil {
		return snapshot{}, err
	}
	format := first.Responses[0].GetResponseRange().GetKvs()
	if len(format) == 0 {
		return snapshot{}, fmt.Errorf("%w: the key %q was removed", ErrForeign, s.keys.format())
	}
	if err := s.checkFormat(format[0].Value); err != nil {
		return snapshot{}, err
	}
	out := snapshot{cluster: first.Header.ClusterId, revision: first.Header.Revision}
	r := reader{store: s, damaged: map[string]error{}}
	if err := r.readAll(ctx, out.revision); err != nil {
		return snapshot{}, err
	}
	var changes []work.Change
	if pending := first.Responses[1].GetResponseRange().GetKvs(); len(pending) > 0 {
		out.pending = true
		if _, changes, err = s.readPending(ctx, pending[0].Value, out.revision); err != nil {
			return snapshot{}, err
		}
	}
	out.records, err = r.with(changes)
	return out, err
}

// reader makes records from the keys of etcd in their order.
type reader struct {
	store   *Store
	records []work.Change
	parts   pieces // of the last record, if its value is split
	split   bool
	damaged map[string]error // by key
}

// readAll adds all records at a revision.
func (r *reader) readAll(ctx context.Context, revision int64) error {
	s := r.store
	from, limit := s.keys.records(), leastPage
	for {
		page, err := s.get(ctx, from, clientv3.WithRange(s.keys.recordsEnd()), clientv3.WithLimit(int64(limit)),
			clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		size := 1
		for _, kv := range page.Kvs {
			if err := r.add(kv); err != nil {
				return err
			}
			size += len(kv.Key) + len(kv.Value)
			from = string(kv.Key) + "\x00"
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		limit = min(max(len(page.Kvs)*pageBytes/size, leastPage), growth*limit, mostPage)
	}
}

func (r *reader) add(kv *mvccpb.KeyValue) error {
	key, chunk, ok := r.store.keys.recordOf(kv.Key)
	if !ok {
		return fmt.Errorf("key %q: %w", kv.Key, ErrForeign)
	}
	last := len(r.records) - 1
	if chunk {
		switch {
		case last < 0 || r.records[last].Key != key: // of a pending batch
		case r.split && len(r.records[last].Value) < r.parts.size:
			r.records[last].Value = append(r.records[last].Value, kv.Value...)
		default:
			r.store.rememberChunks(key)
		}
		return nil
	}
	r.finish()
	switch {
	case len(kv.Value) > 0 && kv.Value[0] == inline:
		r.records = append(r.records, work.Change{Key: key, Value: kv.Value[1:]})
		return nil
	case len(kv.Value) > 0 && kv.Value[0] == split:
		var err error
		if r.parts, err = decodePieces(kv.Value); err == nil {
			r.split = true
			r.store.rememberChunks(key)
			r.records = append(r.records, work.Change{Key: key, Value: []byte{}})
			return nil
		}
	}
	return fmt.Errorf("record %q: %w: %w", key, ErrDamaged, errFormat)
}

// finish checks the last record.
func (r *reader) finish() {
	if !r.split {
		return
	}
	r.split = false
	last := r.records[len(r.records)-1]
	if err := r.parts.check(last.Value); err != nil {
		r.damaged[last.Key] = err
	}
}

// with returns the records with the changes of the pending batch. Large records of a pending batch
// may be incomplete; all others must not be.
func (r *reader) with(changes []work.Change) ([]work.Change, error) {
	r.finish()
	if len(changes) == 0 && len(r.damaged) == 0 {
		return r.records, nil
	}
	changed := make(map[string]struct{}, len(changes))
	for _, c := range changes {
		changed[c.Key] = struct{}{}
		delete(r.damaged, c.Key)
	}
	for key, err := range r.damaged {
		return nil, fmt.Errorf("record %q: %w: %w", key, ErrDamaged, err)
	}
	records := slices.DeleteFunc(r.records, func(c work.Change) bool {
		_, ok := changed[c.Key]
		return ok
	})
	for _, c := range changes {
		if c.Value != nil {
			records = append(records, c)
		}
	}
	slices.SortFunc(records, func(a, b work.Change) int { return strings.Compare(a.Key, b.Key) })
	return records, nil
}

// readPending returns the changes of a pending batch, and the ID of its parts. revision is a
// revision at which it was pending.
func (s *Store) readPending(ctx context.Context, value []byte, revision int64) (string, []work.Change, error) {
	damaged := func(err error) error { return fmt.Errorf("key %q: %w: %w", s.keys.pending(), ErrDamaged, err) }
	if len(value) > 0 && value[0] == inline {
		changes, err := decodeChanges(value[1:])
		if err != nil {
			return "", nil, damaged(err)
		}
		return "", changes, nil
	}
	batch, err := decodePieces(value)
	if err != nil {
		return "", nil, damaged(err)
	}
	var content []byte
	for n := range batch.count {
		part, err := s.get(ctx, s.keys.part(batch.id, n), clientv3.WithRev(revision))
		if err != nil {
			return "", nil, err
		}
		if len(part.Kvs) == 0 {
			return "", nil, damaged(fmt.Errorf("part %d is missing", n))
		}
		content = append(content, part.Kvs[0].Value...)
	}
	if err := batch.check(content); err != nil {
		return "", nil, damaged(err)
	}
	changes, err := decodeChanges(content)
	if err != nil {
		return "", nil, damaged(err)
	}
	return batch.id, changes, nil
}
