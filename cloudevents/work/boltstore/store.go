// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package boltstore keeps what a source or an agent must not forget in a file, in the database bbolt, which etcd is
// built on.
//
//	store, err := boltstore.Open("/var/lib/hub/works.db", boltstore.Options{})
//	defer store.Close()
//	source, err := work.NewSource(transport, work.SourceOptions{SourceID: "hub", Store: store})
//
// A batch of changes is one transaction, and is on the disk when Apply returns: the file is synced. A process or a
// machine that dies at any moment leaves the file as of the last batch that was applied, or the one under way. One
// process at a time can have the file open. The file does not shrink when works are deleted: its pages are used again.
//
// Open checks the structure of the whole file. A truncated, empty or overwritten file is an error, [ErrDamaged].
// It does not detect changed bytes within a value. After damage, restore a backup as the doc of package work
// describes, or remove the file: the source or agent then starts with an empty Store. If the program stores
// related data in another file, such as the reasons for its works, restore or remove both together.
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
	// LockTimeout is how long Open waits for another process to close the file. Defaults to 5 s;
	// negative means for ever.
	LockTimeout time.Duration
	// Mode is the permission of a new file. Defaults to 0600: works may hold secrets.
	Mode os.FileMode
}

// ErrLocked is returned by [Open] when another process has the file open.
var ErrLocked = errors.New("another process has the store open")

// ErrClosed is returned by the methods of a [Store] after Close.
var ErrClosed = errors.New("the store is closed")

// ErrDamaged is returned by [Open] when the file is empty, no database, or not all of one.
var ErrDamaged = errors.New("the file is damaged")

// Store is a [work.Store] in a file. Its methods may be called from any goroutine.
type Store struct {
	db *bbolt.DB
}

var _ work.Store = &Store{}

// bucket holds the records.
var bucket = []byte("records")

// Open opens the file, and creates it if there is none; its folder must exist. It returns [ErrLocked] when another
// process has it open, [ErrDamaged] when it is empty, no database or not whole, and otherwise says what is wrong with
// the file, also where it is the database of another program. A file that it refuses is as it was.
func Open(path string, o Options) (*Store, error) {
	if path == "" {
		return nil, errors.New("boltstore.Open: a path is required")
	}
	s, err := open(path, o.withDefaults())
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = ErrLocked
	}
	switch {
	case errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("open the store %s: %w; restore it, or remove it to start without a past", path, err)
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
		o.LockTimeout = 0 // bbolt's "for ever"
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
		// Free pages are found again by reading the file once, instead of being written with every batch.
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

// check looks into a file that is there, while no other process writes to it.
func check(path string, o Options) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil // it will be created
	}
	// bbolt locks the file, and says what is wrong with its beginning. It would write that to an
	// empty one, but cannot here.
	reader, err := bbolt.Open(path, o.Mode, &bbolt.Options{Timeout: o.LockTimeout, ReadOnly: true})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return err // who has it may be creating it
	case err != nil && isEmpty(path):
		return damaged("it is empty: it was cut, as by a full disk, or never written")
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
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

// Load implements [work.Store]: it reads one consistent state. f must not call Apply.
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
			if err := apply(records, c); err != nil {
				return fmt.Errorf("record %q: %w", c.Key, err)
			}
		}
		return nil
	}))
}

func apply(records *bbolt.Bucket, c work.Change) error {
	if c.Value == nil {
		return records.Delete([]byte(c.Key))
	}
	return records.Put([]byte(c.Key), c.Value)
}

// Close waits for what is under way and closes the file. It may be called more than once.
func (s *Store) Close() error { return s.db.Close() }

// closed makes our error of bbolt's.
func closed(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}
