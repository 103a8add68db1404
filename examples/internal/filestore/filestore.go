// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package filestore is a store of package rsync for one process. It keeps all data in memory, and
// the data without a lease in a file. A transaction is on the disk before Txn returns.
//
// The package is small rather than fast: each transaction waits for the disk. Leases end with the
// process, like the sessions of the engines that use them.
package filestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// remedy is the advice for a damaged file.
const remedy = "restore it, or remove it to start with an empty store"

// initialMmapSize is the mapped address space for the file. If the file grows beyond it, the
// database doubles it.
const initialMmapSize = 256 << 20

// MaxTxnOps is the maximum number of operations in a transaction. It is far above that of other stores,
// so a request may change many records atomically.
const MaxTxnOps = 16 << 10

// lockTimeout limits how long Open waits for another process with the file.
const lockTimeout = 2 * time.Second

var (
	dataBucket  = []byte("rsync")
	metaBucket  = []byte("meta")
	revisionKey = []byte("revision")
)

// Store is a store in memory and in a file. It must be closed. All methods may be called from any
// goroutine.
type Store struct {
	*memstore.Store
	db *bbolt.DB

	mu     sync.Mutex // transactions are written to the file in their order
	failed error      // the write error after which the file is out of date
}

var _ store.Store = &Store{}

// Open reads a file, or creates it. It returns an error for a truncated, empty or overwritten file,
// if the database detects it. Restore such a file, or remove it to start with an empty store.
func Open(ctx context.Context, file string) (s *Store, err error) {
	// The database panics on an invalid page, and faults on a missing one.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%s: the file is damaged: %v; %s", file, p, remedy)
		}
	}()
	// The database would treat an empty file as a new one.
	if info, err := os.Stat(file); err == nil && info.Size() == 0 {
		return nil, fmt.Errorf("%s: the file is empty: it was truncated, for example by a full disk, or never "+
			"written; %s", file, remedy)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: lockTimeout, InitialMmapSize: initialMmapSize})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s: another process has the file open: stop that process, or use another file",
			file)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return nil, fmt.Errorf("%s: the file is damaged: %w; %s", file, err, remedy)
	case errors.As(err, new(*fs.PathError)): // it names the file
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s = &Store{db: db}
	if err := s.load(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// Close closes the file. No call may be in progress.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) load(ctx context.Context) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		data, err := tx.CreateBucketIfNotExists(dataBucket)
		if err != nil {
			return err
		}
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		var revision int64
		if value := meta.Get(revisionKey); len(value) == 8 {
			revision = int64(binary.BigEndian.Uint64(value))
		}
		// The next revision may have been returned for a transaction that is not in the file.
		s.Store = memstore.New(memstore.Options{Revision: revision + 1, MaxTxnOps: MaxTxnOps})
		return data.ForEach(func(key, value []byte) error {
			_, err := s.Store.Txn(ctx, nil, []store.Op{store.Put(string(key), bytes.Clone(value))})
			return err
		})
	})
}

// Txn implements [store.Data].
func (s *Store) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return store.TxnResult{}, s.failed
	}
	result, err := s.Store.Txn(ctx, compares, ops)
	if err != nil || !result.Succeeded || len(ops) == 0 {
		return result, err
	}
	if err := s.db.Update(func(tx *bbolt.Tx) error { return write(tx, ops, result.Revision) }); err != nil {
		s.failed = fmt.Errorf("the store's file can no longer be written, restart when that is fixed: %w", err)
		return store.TxnResult{}, s.failed
	}
	return result, nil
}

// Healthy returns the error after which the file can no longer be written, or nil. Only another
// Open can end this state.
func (s *Store) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func write(tx *bbolt.Tx, ops []store.Op, revision int64) error {
	data := tx.Bucket(dataBucket)
	for _, op := range ops {
		var err error
		switch {
		case op.Kind == store.OpKindPut && op.Lease == 0:
			err = data.Put([]byte(op.Key), op.Value)
		case op.Kind == store.OpKindDeletePrefix:
			err = deletePrefix(data, []byte(op.Key))
		default: // keys with a lease are not in the file
			err = data.Delete([]byte(op.Key))
		}
		if err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(revisionKey, binary.BigEndian.AppendUint64(nil, uint64(revision)))
}

func deletePrefix(data *bbolt.Bucket, prefix []byte) error {
	cursor := data.Cursor()
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Seek(prefix) {
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}
