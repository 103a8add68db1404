// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/spokewire/sdk-go/internal/postgres"
	"github.com/spokewire/sdk-go/rsync/store"
)

const (
	// maxGroup and maxGroupBytes limit the transactions of one statement.
	maxGroup      = 32
	maxGroupBytes = 4 << 20
)

// writer sends the transactions of a store. A transaction that arrives while another one is sent
// waits for it, and is then sent in one statement with all others that wait. So a store locks its
// row once for all of them, and the server writes its log to the disk once.
type writer struct {
	mu      sync.Mutex
	queue   []*request
	sending bool
}

// request is a transaction that waits for its result.
type request struct {
	ctx    context.Context
	arrays arrays
	bytes  int
	answer chan answer // has room for the answer
}

type answer struct {
	reply
	err error
}

// reply is the result of the function rsync_txn.
type reply struct {
	outcome                  int
	revision                 int64
	values                   [][]byte
	created, modified, lease []int64
}

// The outcomes of rsync_txn.
const (
	outcomeSucceeded = 0
	outcomeRefused   = 1
	outcomeNoLease   = 2
)

// Txn implements [store.Data].
func (s *Store) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	if err := s.check(compares, ops); err != nil {
		return store.TxnResult{}, err
	}
	ctx, cancel := s.limited(ctx)
	defer cancel()
	r := &request{ctx: ctx, answer: make(chan answer, 1)}
	r.bytes = r.arrays.add(compares, ops)
	if ctx.Err() != nil || !s.submit(r) {
		return store.TxnResult{}, s.failure(ctx, "transaction", store.ErrClosed)
	}
	var a answer
	select {
	case a = <-r.answer:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	switch {
	case a.err != nil:
		return store.TxnResult{}, s.failure(ctx, "transaction", a.err)
	case a.outcome == outcomeNoLease:
		return store.TxnResult{}, fmt.Errorf("transaction: %w", store.ErrLeaseNotFound)
	}
	out := store.TxnResult{Succeeded: a.outcome == outcomeSucceeded, Revision: a.revision}
	if !out.Succeeded {
		out.Current = make([]store.KeyValue, len(compares))
		for i, c := range compares {
			out.Current[i] = store.KeyValue{
				Key: c.Key, Value: value(a.values[i]), CreateRevision: a.created[i], ModRevision: a.modified[i],
				Lease: store.Lease(a.lease[i]),
			}
		}
	}
	return out, nil
}

func (s *Store) check(compares []store.Compare, ops []store.Op) error {
	if err := store.CheckSize(compares, ops, s.options.MaxTxnBytes, s.options.MaxTxnOps); err != nil {
		return err
	}
	for _, op := range ops {
		if op.Kind == store.OpKindPut && len(op.Key) > maxKeyBytes {
			return fmt.Errorf("the key %.40q… has %d bytes, the limit is %d: %w", op.Key, len(op.Key), maxKeyBytes,
				store.ErrTooLarge)
		}
	}
	return store.CheckKeys(ops)
}

// arrays are the arguments of rsync_txns, for one or more transactions.
type arrays struct {
	sizes                              []int32
	ifKeys, putKeys, putValues         [][]byte
	deleteKeys, deleteFrom, deleteTo   [][]byte
	ifCreated                          []bool
	ifRevisions, putLeases, eventBytes []int64
}

// add adds a transaction, and returns its approximate size.
func (a *arrays) add(compares []store.Compare, ops []store.Op) (bytes int) {
	var puts, deletes, ranges int32
	var eventBytes int64
	for _, c := range compares {
		a.ifKeys, a.ifCreated = append(a.ifKeys, []byte(c.Key)), append(a.ifCreated, c.Created)
		a.ifRevisions = append(a.ifRevisions, c.Revision)
		bytes += 30 + len(c.Key)
	}
	for _, op := range ops {
		bytes += 30 + len(op.Key) + len(op.Value)
		switch op.Kind {
		case store.OpKindDelete:
			a.deleteKeys = append(a.deleteKeys, []byte(op.Key))
			deletes++
		case store.OpKindDeletePrefix:
			a.deleteFrom, a.deleteTo = append(a.deleteFrom, []byte(op.Key)), append(a.deleteTo, end(op.Key))
			ranges++
		default:
			v := op.Value
			if v == nil {
				v = []byte{} // nil would be null
			}
			a.putKeys, a.putValues = append(a.putKeys, []byte(op.Key)), append(a.putValues, v)
			a.putLeases = append(a.putLeases, int64(op.Lease))
			eventBytes += int64(100 + len(op.Key) + len(op.Value))
			puts++
		}
	}
	a.sizes = append(a.sizes, int32(len(compares)), puts, deletes, ranges)
	a.eventBytes = append(a.eventBytes, eventBytes)
	return bytes
}

// join adds the transactions of b.
func (a *arrays) join(b *arrays) {
	a.sizes = append(a.sizes, b.sizes...)
	a.ifKeys, a.ifCreated = append(a.ifKeys, b.ifKeys...), append(a.ifCreated, b.ifCreated...)
	a.ifRevisions = append(a.ifRevisions, b.ifRevisions...)
	a.putKeys, a.putValues = append(a.putKeys, b.putKeys...), append(a.putValues, b.putValues...)
	a.putLeases, a.eventBytes = append(a.putLeases, b.putLeases...), append(a.eventBytes, b.eventBytes...)
	a.deleteKeys = append(a.deleteKeys, b.deleteKeys...)
	a.deleteFrom, a.deleteTo = append(a.deleteFrom, b.deleteFrom...), append(a.deleteTo, b.deleteTo...)
}

// submit queues a transaction. It returns false if the store is closed.
func (s *Store) submit(r *request) bool {
	w := &s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sending && !s.spawn(s.send) {
		return false
	}
	w.sending = true
	w.queue = append(w.queue, r)
	return true
}

// send sends the queued transactions until no transaction waits.
func (s *Store) send() {
	for group := s.writer.take(); group != nil; group = s.writer.take() {
		replies, err := s.execute(group)
		if err != nil && len(group) > 1 && postgres.Code(err) != "" && !postgres.Retryable(err) {
			// The server has executed no transaction. Find out for which of them the error is.
			for i := range group {
				replies, err := s.execute(group[i : i+1])
				answerAll(group[i:i+1], replies, err)
			}
			continue
		}
		answerAll(group, replies, err)
	}
}

func answerAll(group []*request, replies []reply, err error) {
	for i, r := range group {
		if err != nil {
			r.answer <- answer{err: err}
		} else {
			r.answer <- answer{reply: replies[i]}
		}
	}
}

// take returns the next transactions to send, without those whose callers are gone. It returns nil
// if no transaction waits.
func (w *writer) take() (group []*request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for ; n < len(w.queue) && len(group) < maxGroup; n++ {
		r := w.queue[n]
		if r.ctx.Err() != nil {
			continue
		}
		if bytes += r.bytes; bytes > maxGroupBytes && len(group) > 0 {
			break
		}
		group = append(group, r)
	}
	clear(w.queue[:n])
	w.queue = w.queue[n:]
	if len(group) == 0 {
		w.queue, w.sending = nil, false
	}
	return group
}

// execute sends transactions in one statement, which the server executes and commits as a whole.
func (s *Store) execute(group []*request) ([]reply, error) {
	ctx, cancel := s.limited(s.ctx)
	defer cancel()
	var a arrays
	for _, r := range group {
		a.join(&r.arrays)
	}
	rows, err := s.db.Pool.Query(ctx, s.sql.txn, s.id, a.sizes, a.ifKeys, a.ifCreated, a.ifRevisions, a.putKeys,
		a.putValues, a.putLeases, a.eventBytes, a.deleteKeys, a.deleteFrom, a.deleteTo)
	if err != nil {
		return nil, timeout(ctx, err)
	}
	defer rows.Close()
	var replies []reply
	last := int64(0)
	for rows.Next() {
		var r reply
		if err := rows.Scan(&r.outcome, &r.revision, &r.values, &r.created, &r.modified, &r.lease); err != nil {
			return nil, err
		}
		replies = append(replies, r)
		last = max(last, r.revision)
	}
	if err := rows.Err(); err != nil {
		return nil, timeout(ctx, err)
	}
	if len(replies) != len(group) {
		return nil, fmt.Errorf("the server returned %d results of %d transactions", len(replies), len(group))
	}
	s.feed.hint(last)
	return replies, nil
}

// timeout returns the cause of the end of ctx instead of an error that it has caused.
func timeout(ctx context.Context, err error) error {
	if ctx.Err() != nil && postgres.Code(err) == "" {
		return context.Cause(ctx)
	}
	return err
}
