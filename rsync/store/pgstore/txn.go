// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"fmt"
	"strings"
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
	texts   [maxGroup + 1]string // the statement for a number of transactions; of the sending goroutine
}

// request is a transaction that waits for its result.
type request struct {
	ctx    context.Context
	args   []any
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
	r.args, r.bytes = arguments(s.id, compares, ops)
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

// arguments returns the arguments of rsync_txn, and their approximate size.
func arguments(id int, compares []store.Compare, ops []store.Op) (args []any, bytes int) {
	var ifKeys, putKeys, putValues, deleteKeys, deleteFrom, deleteTo [][]byte
	var ifCreated []bool
	var ifRevisions, putLeases []int64
	putBytes, leased := 0, false
	for _, c := range compares {
		ifKeys, ifCreated = append(ifKeys, []byte(c.Key)), append(ifCreated, c.Created)
		ifRevisions = append(ifRevisions, c.Revision)
		bytes += 30 + len(c.Key)
	}
	for _, op := range ops {
		bytes += 30 + len(op.Key)
		switch op.Kind {
		case store.OpKindDelete:
			deleteKeys = append(deleteKeys, []byte(op.Key))
		case store.OpKindDeletePrefix:
			deleteFrom, deleteTo = append(deleteFrom, []byte(op.Key)), append(deleteTo, end(op.Key))
		default:
			v := op.Value
			if v == nil {
				v = []byte{} // nil would be null
			}
			putKeys, putValues = append(putKeys, []byte(op.Key)), append(putValues, v)
			putLeases = append(putLeases, int64(op.Lease))
			leased = leased || op.Lease != 0
			putBytes += 100 + len(op.Key) + len(op.Value)
		}
	}
	if !leased {
		putLeases = nil
	}
	return []any{
		id, ifKeys, ifCreated, ifRevisions, putKeys, putValues, putLeases, putBytes, deleteKeys, deleteFrom, deleteTo,
	}, bytes + putBytes
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
			// The server has executed none. Find out for which of them the error is.
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
	var args []any
	for _, r := range group {
		args = append(args, r.args...)
	}
	rows, err := s.db.Pool.Query(ctx, s.writer.text(s.sql.txn, len(group), len(group[0].args)), args...)
	if err != nil {
		return nil, timeout(ctx, err)
	}
	defer rows.Close()
	replies := make([]reply, len(group))
	n, last := 0, int64(0)
	for ; rows.Next(); n++ {
		var i int
		var r reply
		if err := rows.Scan(&i, &r.outcome, &r.revision, &r.values, &r.created, &r.modified, &r.lease); err != nil {
			return nil, err
		}
		replies[i] = r
		last = max(last, r.revision)
	}
	if err := rows.Err(); err != nil {
		return nil, timeout(ctx, err)
	}
	if n != len(group) {
		return nil, fmt.Errorf("the server returned %d results of %d transactions", n, len(group))
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

// text returns the statement for n transactions with their arguments. The server executes the
// functions one after the other, in one transaction.
func (w *writer) text(function string, n, args int) string {
	if w.texts[n] != "" {
		return w.texts[n]
	}
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %d, t.* FROM %s(", i, function)
		for a := range args {
			if a > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "$%d", i*args+a+1)
		}
		b.WriteString(") AS t")
	}
	w.texts[n] = b.String()
	return w.texts[n]
}
