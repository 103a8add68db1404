// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package store is the interface behind which the engine of package rsync keeps all that must survive it: an ordered map
// with revisions, transactions, watches and leases, which is the part of etcd's interface that it needs.
//
//   - memstore keeps it in memory: for tests and Examples, and the reference of how a store behaves.
//   - etcdstore keeps it in etcd 3.
//   - storetest has the conformance suite for others, and a store around a store that fails where a test wants it to.
//
// # What a store does
//
// Keys are strings, ordered by their bytes. Each successful transaction that writes makes a new revision, greater than all
// before. A transaction is all or nothing, and linearizable: what one has written, all later reads and transactions see, of
// whoever. A transaction whose error is none of those named here may have been done, or be done yet: who needs to know
// looks. A lease that is not renewed ends with the time it was granted for, and takes the keys with it that were put with it,
// which watches tell like any deletion.
package store

import (
	"context"
	"errors"
	"time"
)

// The errors of stores, for errors.Is. All others mean that the store did not answer as it should, and may later.
var (
	// ErrCompacted: the revision to watch from is older than what the store still knows.
	ErrCompacted = errors.New("the store no longer has that revision: read anew and watch from there")
	// ErrLeaseNotFound: the lease has ended, or never was.
	ErrLeaseNotFound = errors.New("the lease does not exist or has ended")
	// ErrTooLarge: a value or a transaction is over the store's limit. The error is a [*SizeError] where the store knows the figures.
	ErrTooLarge = errors.New("too large for the store")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Lease is a lease's ID; 0 is none.
type Lease int64

// KeyValue is a key with what the store knows about it. Value may be shared and must not be changed.
type KeyValue struct {
	Key   string
	Value []byte
	// CreateRevision and ModRevision are the revisions of the transactions that created the key and last put it. Both are 0 for a
	// key that does not exist.
	CreateRevision, ModRevision int64
	Lease                       Lease
}

// Exists reports whether the key is there.
func (kv KeyValue) Exists() bool { return kv.CreateRevision != 0 }

// Compare is a condition of a transaction: the key has the revision, where 0 means that the key does not exist.
type Compare struct {
	Key string
	// Created compares CreateRevision, otherwise ModRevision is.
	Created  bool
	Revision int64
}

// Unchanged is true while nobody has put or deleted a key after it was read.
func Unchanged(kv KeyValue) Compare { return Compare{Key: kv.Key, Revision: kv.ModRevision} }

// Absent is true while a key does not exist.
func Absent(key string) Compare { return Compare{Key: key} }

// SameLife is true while a key that was created at a revision has not been deleted since, however often it was put.
func SameLife(key string, created int64) Compare {
	return Compare{Key: key, Created: true, Revision: created}
}

// Op is a write of a transaction. No two of one transaction may be about the same key.
type Op struct {
	Kind  OpKind
	Key   string // or the prefix
	Value []byte
	Lease Lease
}

// OpKind says what an Op does.
type OpKind int

// The kinds of Op.
const (
	OpPut OpKind = iota
	OpDelete
	OpDeletePrefix
)

// Put sets a key.
func Put(key string, value []byte) Op { return Op{Kind: OpPut, Key: key, Value: value} }

// PutLeased sets a key that ends with a lease.
func PutLeased(key string, value []byte, lease Lease) Op {
	return Op{Kind: OpPut, Key: key, Value: value, Lease: lease}
}

// Delete removes a key; one that does not exist is no error.
func Delete(key string) Op { return Op{Kind: OpDelete, Key: key} }

// DeletePrefix removes all keys with a prefix.
func DeletePrefix(prefix string) Op { return Op{Kind: OpDeletePrefix, Key: prefix} }

// TxnResult is what a transaction came to.
type TxnResult struct {
	// Succeeded is whether all conditions were true, and so all was written.
	Succeeded bool
	// Revision is that of the store after the transaction; of one that wrote, its own.
	Revision int64
	// Current has, where it did not succeed, what the store has for the keys of the conditions, in their order.
	Current []KeyValue
}

// RangeResult is what a Range has read.
type RangeResult struct {
	// KVs are ordered by their keys.
	KVs []KeyValue
	// Revision is that of the store when it was read: a watch from the next one misses nothing.
	Revision int64
}

// Event is a change of one key.
type Event struct {
	// Deleted is whether the key was deleted; then KV has its name, and the revision in ModRevision.
	Deleted bool
	KV      KeyValue
}

// Watched is a message of a watch: events in the order of their revisions, or the error that ended it.
type Watched struct {
	Events []Event
	// Revision is the last one that the message is about: a watch that goes on begins after it.
	Revision int64
	// Err is ErrCompacted, or why the store cannot go on. It is the last message, unless the context has ended.
	Err error
}

// Store is what the engine needs. All methods may be called from any goroutine, and return soon after ctx has ended.
type Store interface {
	Data
	Leases
}

// Data are the methods for keys and values.
type Data interface {
	// Get reads a key. One that does not exist is no error: see [KeyValue.Exists].
	Get(ctx context.Context, key string) (KeyValue, error)
	// Range reads all keys with a prefix, at one revision.
	Range(ctx context.Context, prefix string) (RangeResult, error)
	// Txn does all ops if all compares are true, and otherwise none. It returns ErrTooLarge for what it can never do, and
	// ErrLeaseNotFound for a put with a lease that has ended.
	Txn(ctx context.Context, compares []Compare, ops []Op) (TxnResult, error)
	// Watch tells of changes to keys with a prefix, from a revision on, which may be in the past or the next to come; 0 means from
	// now on. The events of one transaction come together. The channel is closed when ctx ends and after an error.
	Watch(ctx context.Context, prefix string, fromRevision int64) <-chan Watched
}

// Leases are the methods for leases.
type Leases interface {
	// Grant begins a lease. Its time may be rounded up to what the store can do; etcd has whole seconds.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)
	// KeepAlive renews a lease once, for the time that it was granted for. It returns ErrLeaseNotFound when it is too late.
	KeepAlive(ctx context.Context, lease Lease) error
	// Revoke ends a lease now. One that has ended is no error.
	Revoke(ctx context.Context, lease Lease) error
}
