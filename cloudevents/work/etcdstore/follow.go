// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/wait"
)

// Follow implements [work.SharedStore]. Errors are f's, [work.ErrBehind], and those of Load. It returns
// [ErrUnreachable] when etcd does not answer within [Options].Timeout, also while there are no
// changes. If f is slow, changes wait in memory.
func (s *Store) Follow(ctx context.Context, position string, keys []string, f func(work.Batch) error) error {
	caller := ctx
	ctx, cancel := s.until(ctx)
	defer cancel()
	content, err := s.state(ctx, position, keys)
	if err == nil {
		t := &tail{store: s, cluster: content.cluster, pending: content.pending, f: f}
		t.next.Store(content.revision + 1)
		if err = t.call(content.records, content.revision); err == nil {
			err = t.run(ctx)
		}
	}
	switch failed := (*calleeError)(nil); {
	case errors.As(err, &failed):
		return failed.error
	case caller.Err() != nil:
		return nil
	case s.life.Err() != nil:
		return ErrClosed
	}
	return err
}

// positionOf returns the position of a batch: the ID of the etcd and a revision.
func positionOf(cluster uint64, revision int64) string {
	return fmt.Sprintf("%x/%d", cluster, revision)
}

// state returns the whole content, or the records of keys at a position.
func (s *Store) state(ctx context.Context, position string, keys []string) (snapshot, error) {
	if position == "" {
		return s.snapshot(ctx)
	}
	out := snapshot{}
	_, number, _ := strings.Cut(position, "/")
	out.revision, _ = strconv.ParseInt(number, 10, 64)
	if out.revision < 1 {
		return out, work.ErrBehind
	}
	pending, err := s.get(ctx, s.keys.pending(), clientv3.WithRev(out.revision))
	if err == nil {
		out.cluster = pending.Header.ClusterId
		if positionOf(out.cluster, out.revision) != position {
			return out, work.ErrBehind
		}
		out.pending = len(pending.Kvs) > 0
		out.records, err = s.recordsOf(ctx, keys, pending.Kvs, out.revision)
	}
	switch {
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		return out, fmt.Errorf("%w: %w", work.ErrBehind, err)
	case err != nil && !errors.Is(err, ErrDamaged):
		err = s.failure(ctx, "follow", err)
	}
	return out, err
}

// recordsOf returns the records of keys at a revision, with a nil Value for a missing record.
func (s *Store) recordsOf(
	ctx context.Context, keys []string, pending []*mvccpb.KeyValue, revision int64,
) ([]work.Change, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	r := reader{store: s, damaged: map[string]error{}}
	for _, key := range keys {
		page, err := s.get(ctx, s.keys.record(key), clientv3.WithRange(s.keys.recordEnd(key)), clientv3.WithRev(revision))
		if err != nil {
			return nil, err
		}
		for _, kv := range page.Kvs {
			if err := r.add(kv); err != nil {
				return nil, err
			}
		}
	}
	var changes []work.Change
	if len(pending) > 0 {
		var err error
		if _, changes, err = s.readPending(ctx, pending[0].Value, revision); err != nil {
			return nil, err
		}
	}
	records, err := r.with(changes)
	found := make(map[string][]byte, len(records))
	for _, c := range records {
		found[c.Key] = c.Value
	}
	out := make([]work.Change, len(keys))
	for i, key := range keys {
		out[i] = work.Change{Key: key, Value: found[key]}
	}
	return out, err
}

// calleeError is an error of the function that Follow calls.
type calleeError struct{ error }

// tail is the part of Follow after the snapshot.
type tail struct {
	store   *Store
	cluster uint64 // the ID of the etcd
	f       func(work.Batch) error
	next    atomic.Int64 // the revision after the last one that was handled
	pending bool         // a batch is pending: changes of records copy it
}

func (t *tail) call(changes []work.Change, revision int64) error {
	if err := t.f(work.Batch{Changes: changes, Position: positionOf(t.cluster, revision)}); err != nil {
		return &calleeError{err}
	}
	return nil
}

// run watches until ctx ends or the error is permanent.
func (t *tail) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	group.Go(func() { cancel(t.observe(ctx)) })
	for {
		err := t.watch(ctx)
		switch {
		case errors.As(err, new(*calleeError)):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, new(*resumable)):
			return err
		}
		// etcd has ended the watch, for example because it has no leader.
		if err := wait.Sleep(ctx, clock.RealClock{}, t.store.options.Timeout/50); err != nil {
			return context.Cause(ctx)
		}
	}
}

// observe reads from etcd until it does not answer. It returns ErrBehind when etcd has returned to
// an earlier revision, because a watch would wait for the later one.
func (t *tail) observe(ctx context.Context) error {
	s := t.store
	for {
		if err := wait.Sleep(ctx, clock.RealClock{}, s.options.Timeout); err != nil {
			return nil
		}
		revision := t.next.Load() - 1
		r, err := s.get(ctx, s.keys.format())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return s.failure(ctx, "follow", err)
		case len(r.Kvs) == 0:
			return fmt.Errorf("%w: the key %q was removed", ErrForeign, s.keys.format())
		case r.Header.Revision < revision:
			return fmt.Errorf("%w: the revision decreased from %d to %d: a backup was restored", work.ErrBehind, revision,
				r.Header.Revision)
		}
	}
}

// resumable is an error after which a new watch may continue.
type resumable struct{ error }

// watch handles events until the watch ends.
func (t *tail) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	keys := t.store.keys
	// Fragments have a limited size; the client joins those of one revision.
	for response := range t.store.client.Watch(ctx, keys.pending(), clientv3.WithRange(keys.watchEnd()),
		clientv3.WithRev(t.next.Load()), clientv3.WithFragment(), clientv3.WithProgressNotify()) {
		if err := response.Err(); err != nil {
			switch {
			case response.CompactRevision > 0, errors.Is(err, rpctypes.ErrCompacted):
				return fmt.Errorf("%w: revision %d was compacted, the next one is %d", work.ErrBehind, response.CompactRevision,
					t.next.Load())
			case isPermanent(err):
				return t.store.failure(ctx, "follow", err)
			}
			return &resumable{err}
		}
		if response.IsProgressNotify() { // all earlier changes have arrived, and may be compacted
			t.next.Store(max(t.next.Load(), response.Header.Revision+1))
		}
		events := response.Events
		for len(events) > 0 {
			revision, n := events[0].Kv.ModRevision, 1
			for n < len(events) && events[n].Kv.ModRevision == revision {
				n++
			}
			if revision >= t.next.Load() {
				if err := t.handle(ctx, events[:n]); err != nil {
					return err
				}
				t.next.Store(revision + 1)
			}
			events = events[n:]
		}
	}
	return &resumable{errors.New("the client has closed the watch")}
}

// handle calls f with the changes of one revision.
func (t *tail) handle(ctx context.Context, events []*clientv3.Event) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s, copies := t.store, t.pending
	var changes, removed []work.Change
	var deleted []string
	for _, e := range events {
		put := e.Type == clientv3.EventTypePut
		key, chunk, isRecord := s.keys.recordOf(e.Kv.Key)
		var err error
		switch {
		case string(e.Kv.Key) == s.keys.pending():
			if t.pending = put; put {
				_, changes, err = s.readPending(ctx, e.Kv.Value, e.Kv.ModRevision)
			}
		case string(e.Kv.Key) == s.keys.removed() && put:
			if removed, err = decodeChanges(e.Kv.Value); err != nil {
				err = fmt.Errorf("key %q: %w: %w", e.Kv.Key, ErrDamaged, err)
			}
		case !isRecord || chunk || copies:
		case !put:
			deleted = append(deleted, key)
		case len(e.Kv.Value) == 0 || e.Kv.Value[0] != inline:
			err = fmt.Errorf("record %q: %w: %w", key, ErrDamaged, errFormat)
		default:
			changes = append(changes, work.Change{Key: key, Value: e.Kv.Value[1:]})
		}
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			return fmt.Errorf("%w: the parts of a batch were compacted", work.ErrBehind)
		case errors.Is(err, ErrDamaged):
			return err
		case err != nil:
			return s.failure(ctx, "follow", err)
		}
	}
	changes = append(changes, removed...)
	if len(deleted) > len(removed) { // another program has deleted records
		for _, key := range deleted {
			if !slices.ContainsFunc(removed, func(c work.Change) bool { return c.Key == key }) {
				changes = append(changes, work.Change{Key: key})
			}
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return t.call(changes, events[0].Kv.ModRevision)
}
