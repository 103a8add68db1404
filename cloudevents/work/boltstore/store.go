// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package boltstore implements [work.Store] in a file. It uses bbolt, the database of etcd.
//
//	store, err := boltstore.Open("/var/lib/hub/works.db", boltstore.Options{})
//	defer store.Close()
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Store: store})
//
// A batch of changes is one transaction. The file is synced, so the batch is on the disk when Apply
// returns. If the process or the machine crashes, the file contains all applied batches, and the
// batch in progress entirely or not at all. Only one process can have the file open at a time. The
// file does not shrink when works are deleted: its pages are used again.
//
// Open checks the structure of the whole file, but does not detect changed bytes within a value.
// After [ErrDamaged], restore a backup as STORES.md of package work describes, or remove the file:
// the source or agent then starts with an empty Store. If the program stores related data in
// another file, restore or remove both files together.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// DefaultLockTimeout is the default of [Options.LockTimeout].
const DefaultLockTimeout = 5 * time.Second

// Options configures a [Store].
type Options struct {
	// LockTimeout is how long Open waits for another process to close the file. Defaults to 5 s. A
	// negative value means no limit.
	LockTimeout time.Duration
	// Mode is the permission of a new file. Defaults to 0600: works may hold secrets.
	Mode os.FileMode
}

// ErrLocked is returned by [Open] when another process has the file open.
var ErrLocked = errors.New("another process has the store open")

// ErrClosed is returned by the methods of a [Store] after Close.
var ErrClosed = errors.New("the store is closed")

// ErrDamaged is returned by [Open] when the file is empty, is not a database, or is an incomplete
// or damaged database.
var ErrDamaged = errors.New("the file is damaged")

// Store is a [work.Store] in a file. Its methods may be called from any goroutine.
type Store struct {
	db *bbolt.DB
}

var _ work.Store = &Store{}

// bucket holds the records.
var bucket = []byte("records")

// Open opens the file at path, and creates it if it does not exist. Its folder must exist. Errors
// are [ErrLocked], [ErrDamaged], and those of the file; a database of another program is an error
// too. Open does not change a file that it refuses.
func Open(path string, o Options) (*Store, error) {
	if path == "" {
		return nil, errors.New("boltstore.Open: a path is required")
	}
	s, err := open(path, o.withDefaults())
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open the store %s: %w", path, ErrLocked)
	case errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("open the store %s: %w; restore it, or remove it to start with an empty Store", path, err)
	case err != nil:
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	switch {
	case o.LockTimeout == 0:
		o.LockTimeout = DefaultLockTimeout
	case o.LockTimeout < 0:
		o.LockTimeout = 0 // bbolt waits without a limit
	}
	return o
}

func open(path string, o Options) (*Store, error) {
	began := time.Now()
	if err := check(path, o); err != nil {
		return nil, err
	}
	if o.LockTimeout > 0 {
		o.LockTimeout = max(o.LockTimeout-time.Since(began), time.Millisecond)
	}
	db, err := bbolt.Open(path, o.Mode, &bbolt.Options{
		Timeout: o.LockTimeout,
		// Open reads the file once to find free pages. They are not written with every batch.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(bucket) != nil {
			return nil
		}
		if key, _ := tx.Cursor().First(); key != nil {
			return fmt.Errorf("it is a database of another program, with the bucket %.64q", key)
		}
		_, err := tx.CreateBucket(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{db: db}, nil
}

// check checks an existing file while no other process writes to it.
func check(path string, o Options) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil // it will be created
	}
	// In read-only mode bbolt locks the file and checks its beginning, and initializes no empty
	// file.
	reader, err := bbolt.Open(path, o.Mode, &bbolt.Options{Timeout: o.LockTimeout, ReadOnly: true})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return err // the process that has the file open may be creating it
	case err != nil && isEmpty(path):
		return damaged("it is empty: it was cut, as by a full disk, or never written")
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return err
	}
	return errors.Join(checkFile(path), reader.Close())
}

func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// Load implements [work.Store]. It reads one consistent state. f must not call Apply.
func (s *Store) Load(ctx context.Context, f func(key string, value []byte) error) error {
	return closed(s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(key, value []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(string(key), value)
		})
	}))
}

// Apply implements [work.Store].
func (s *Store) Apply(ctx context.Context, changes []work.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	return closed(s.db.Update(func(tx *bbolt.Tx) error {
		records := tx.Bucket(bucket)
		for _, c := range changes {
			var err error
			if c.Value == nil {
				err = records.Delete([]byte(c.Key))
			} else {
				err = records.Put([]byte(c.Key), c.Value)
			}
			if err != nil {
				return fmt.Errorf("record %q: %w", c.Key, err)
			}
		}
		return nil
	}))
}

// Close waits for the calls in progress and closes the file. It may be called more than once.
func (s *Store) Close() error { return s.db.Close() }

// closed replaces bbolt's error for a closed database by ErrClosed.
func closed(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}
