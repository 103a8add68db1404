// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package store is the interface of the durable state of package rsync: an ordered map with
// revisions, transactions, watches and leases. The engine needs this part of etcd's interface.
//
//   - memstore stores in memory. It is for tests and Examples, and the reference for the behaviour
//     of a store.
//   - etcdstore stores in etcd 3.
//   - pgstore stores in PostgreSQL.
//   - storetest has the conformance suite for other stores, and a wrapper that makes a store fail
//     for tests.
//
// The SDK has no store in a file. For one process, copy examples/internal/filestore, which uses
// bbolt.
//
// # What a store does
//
// Keys are strings, ordered by their bytes. Each successful transaction that writes has a new
// revision, greater than all earlier ones. Transactions are atomic and linearizable: all later
// reads and transactions of all clients see the writes. A transaction that returns an error other
// than those of this package may have been executed, or may still be executed. To find out, the
// caller reads the keys. A lease that is not renewed ends after the time for which it was granted.
// Its keys are deleted with it, and watches report them as deletions.
package store

import (
	"context"
	"errors"
	"time"
)

// The errors of stores, for errors.Is. Any other error means that the store failed, and that a
// retry may succeed.
var (
	// ErrCompacted: the store does not have the revision to watch from.
	ErrCompacted = errors.New("the store no longer has that revision: read again and watch from there")
	// ErrLeaseNotFound: the lease has ended, or never existed.
	ErrLeaseNotFound = errors.New("the lease does not exist or has ended")
	// ErrTooLarge: a value or a transaction exceeds a limit of the store. The error may be a
	// [*SizeError] with the figures.
	ErrTooLarge = errors.New("too large for the store")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Lease is the ID of a lease. 0 means no lease.
type Lease int64

// KeyValue is a key with its value and revisions. Value may be shared and must not be changed.
type KeyValue struct {
	Key   string
	Value []byte
	// CreateRevision and ModRevision are the revisions of the transactions that created the key and
	// last put it. Both are 0 for a key that does not exist.
	CreateRevision, ModRevision int64
	Lease                       Lease
}

// Exists reports whether the key exists.
func (kv KeyValue) Exists() bool { return kv.CreateRevision != 0 }

// Compare is a condition of a transaction: the key has the revision. 0 means that the key does not
// exist.
type Compare struct {
	Key string
	// Created selects CreateRevision for the comparison. The default is ModRevision.
	Created  bool
	Revision int64
}

// Unchanged is true while a key has not been put or deleted since it was read.
func Unchanged(kv KeyValue) Compare { return Compare{Key: kv.Key, Revision: kv.ModRevision} }

// Absent is true while a key does not exist.
func Absent(key string) Compare { return Compare{Key: key} }

// SameLife is true while a key that was created at a revision has not been deleted. Puts do not
// matter.
func SameLife(key string, created int64) Compare {
	return Compare{Key: key, Created: true, Revision: created}
}

// Op is a write of a transaction. A transaction has at most one Op for a key.
type Op struct {
	Kind  OpKind
	Key   string // or the prefix
	Value []byte
	Lease Lease
}

// OpKind is the kind of write of an Op.
type OpKind int

// The kinds of Op.
const (
	OpKindPut OpKind = iota
	OpKindDelete
	OpKindDeletePrefix
)

// Put sets a key.
func Put(key string, value []byte) Op { return Op{Kind: OpKindPut, Key: key, Value: value} }

// PutLeased sets a key that ends with a lease.
func PutLeased(key string, value []byte, lease Lease) Op {
	return Op{Kind: OpKindPut, Key: key, Value: value, Lease: lease}
}

// Delete removes a key. A key that does not exist is no error.
func Delete(key string) Op { return Op{Kind: OpKindDelete, Key: key} }

// DeletePrefix removes all keys with a prefix.
func DeletePrefix(prefix string) Op { return Op{Kind: OpKindDeletePrefix, Key: prefix} }

// TxnResult is the result of a transaction.
type TxnResult struct {
	// Succeeded is true if all conditions were true, and all ops were executed.
	Succeeded bool
	// Revision is the revision of the store after the transaction. A transaction that wrote has
	// this revision.
	Revision int64
	// Current has the keys of the conditions, in their order, if the transaction did not succeed.
	Current []KeyValue
}

// RangeResult is the result of a Range.
type RangeResult struct {
	// KVs are ordered by their keys.
	KVs []KeyValue
	// Revision is the revision of the store at the read. A watch from Revision+1 misses no change.
	Revision int64
}

// Event is a change of one key.
type Event struct {
	// Deleted is true if the key was deleted. KV then has only the Key, and the revision of the
	// deletion in ModRevision.
	Deleted bool
	KV      KeyValue
}

// Watched is a message of a watch: events in the order of their revisions, or the error that ended
// the watch.
type Watched struct {
	Events []Event
	// Revision is the last revision that the message covers. Continue with a watch from Revision+1.
	Revision int64
	// Err is ErrCompacted or the error that ended the watch. No message follows it.
	Err error
}

// Store is the store of an engine. All methods may be called from any goroutine, and return soon
// after ctx has ended.
type Store interface {
	Data
	Leases
}

// Data has the methods for keys and values.
type Data interface {
	// Get reads a key. A key that does not exist is no error: see [KeyValue.Exists].
	Get(ctx context.Context, key string) (KeyValue, error)
	// Range reads all keys with a prefix, at one revision.
	Range(ctx context.Context, prefix string) (RangeResult, error)
	// Txn executes all ops if all compares are true, and otherwise no op. It returns ErrTooLarge
	// for a transaction that exceeds the limits, and ErrLeaseNotFound for a put with a lease that
	// has ended. A transaction that puts a key twice, or puts and deletes it, has an error.
	Txn(ctx context.Context, compares []Compare, ops []Op) (TxnResult, error)
	// Watch sends the changes of keys with a prefix, from a revision on. The revision may be in the
	// past. It may also be the next revision of the store. 0 means from now on. The events of one
	// transaction are in one message. The channel is closed when ctx ends and after an error.
	Watch(ctx context.Context, prefix string, fromRevision int64) <-chan Watched
}

// Leases has the methods for leases.
type Leases interface {
	// Grant creates a lease. The store may round its time up: etcd rounds to whole seconds.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)
	// KeepAlive renews a lease once, for the time for which it was granted. It returns
	// ErrLeaseNotFound if the lease has ended.
	KeepAlive(ctx context.Context, lease Lease) error
	// Revoke ends a lease immediately. A lease that has ended is no error.
	Revoke(ctx context.Context, lease Lease) error
}
