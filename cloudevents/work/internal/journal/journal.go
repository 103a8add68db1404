// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal writes the records of a source or an agent to a store.
package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
)

// Record is a record that a store keeps. Its methods are called with [Options].Lock held.
type Record interface {
	// Content returns the value to store: a value for encoding/json that does not change
	// afterwards, or nil if the record was removed.
	Content() any
	// Saved is called when the last result of Content is durable.
	Saved()
}

// ErrClosed is returned by [Journal.Flush] for records that were marked after [Journal.Finish].
var ErrClosed = errors.New("the journal is closed")

const (
	// applyTimeout bounds one transaction. A caller stops waiting for it when its own context ends.
	applyTimeout = 30 * time.Second
	// retryInterval is how long Run waits before it repeats a failed write.
	retryInterval = time.Second
	// lastWrites is the time that the store has at the end, after the outbox.
	lastWrites = 5 * time.Second
)

// Options configures a [Journal].
type Options struct {
	Store Store
	// Lock guards the records.
	Lock sync.Locker
	// Meta is added to every batch of a process that may write.
	Meta Record
	// Wrote is called after each transaction, without Lock.
	Wrote func(began time.Time, err error)
	Clock clock.WithTicker
	// DrainTimeout is the time that the outbox has at the end, before the store.
	DrainTimeout time.Duration

	// Leader returns the record under KeyLeader of this process, or nil if this process is not the
	// leader. A nil Leader means that only one process uses the store. Replaced is called when
	// another process has become the leader. Both are called with Lock held.
	Leader   func() []byte
	Replaced func()
}

// Journal writes changed records to a store. The first caller of Flush starts a write of all
// changed records in a goroutine, at most one at a time, and all callers wait for it. A nil Journal
// is a journal without a store: Flush returns nil at once.
type Journal struct {
	options Options

	// Options.Lock guards the following fields.
	dirty  map[string]Record
	taken  map[string]Record // those of the write in progress
	marked uint64            // counts marks
	saved  uint64            // all marks up to this number are durable
	busy   bool              // a write is in progress
	closed bool              // no further write begins
	last   attempt           // the last write that has ended
	ended  wait.Broadcast    // a write has ended
	failed error             // of the last write

	wake   wait.Signal     // something is dirty
	life   context.Context // of writes; ended by giveUp
	giveUp context.CancelFunc
	writes sync.WaitGroup // the write in progress
}

// attempt is a write that has ended.
type attempt struct {
	number  uint64
	through uint64 // all marks up to this number were included
	err     error
}

// New returns a journal for a store.
func New(options Options) *Journal {
	life, giveUp := context.WithCancel(context.Background())
	return &Journal{options: options, life: life, giveUp: giveUp, dirty: map[string]Record{}, wake: wait.NewSignal()}
}

// MarkLocked marks a record as changed.
func (j *Journal) MarkLocked(key string, r Record) {
	if j == nil {
		return
	}
	j.dirty[key] = r
	j.marked++
	j.wakeUpLocked()
}

// UnsavedLocked returns the number of records that have changed since they were written.
func (j *Journal) UnsavedLocked() int {
	if j == nil {
		return 0
	}
	return len(j.dirty)
}

// DiscardLocked removes the marks of records, except those for which keep returns true. It returns
// their keys.
func (j *Journal) DiscardLocked(keep func(Record) bool) (keys []string) {
	for key, r := range j.dirty {
		if !keep(r) {
			r.Saved()
			delete(j.dirty, key)
			keys = append(keys, key)
		}
	}
	return keys
}

// WritingLocked returns the keys of the write in progress.
func (j *Journal) WritingLocked() []string { return slices.Collect(maps.Keys(j.taken)) }

// Flush returns when all earlier marks are durable, when their write has failed, or when ctx has
// ended.
func (j *Journal) Flush(ctx context.Context) error {
	if j == nil {
		return nil
	}
	j.options.Lock.Lock()
	defer j.options.Lock.Unlock()
	target, begin := j.marked, j.last.number
	for j.saved < target {
		switch {
		case j.last.number > begin && j.last.err != nil && j.last.through >= target:
			return j.last.err // the write included this caller's marks
		case j.closed:
			return cmp.Or(j.failed, ErrClosed)
		case !j.busy:
			j.busy = true
			j.writes.Go(j.write)
		}
		ended := j.ended.Next()
		j.options.Lock.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		j.options.Lock.Lock()
		if err := ctx.Err(); err != nil && j.saved < target {
			return err
		}
	}
	return nil
}

// batch is the content of one write.
type batch struct {
	through  uint64 // all marks up to this number are included
	records  map[string]Record
	contents map[string]any
	leader   []byte // the record that must not have changed; nil for none
}

// write writes all changed records to the store. Options.Lock is free while the store works.
func (j *Journal) write() {
	j.options.Lock.Lock()
	b := j.takeLocked()
	j.options.Lock.Unlock()

	var err error
	if len(b.records) > 0 {
		began := j.options.Clock.Now()
		err = j.apply(b)
		j.options.Wrote(began, err)
	}

	j.options.Lock.Lock()
	defer j.options.Lock.Unlock()
	j.settleLocked(b, err)
}

func (j *Journal) takeLocked() batch {
	b := batch{through: j.marked, records: j.dirty, contents: make(map[string]any, len(j.dirty)+1)}
	if len(b.records) == 0 {
		return b
	}
	j.dirty, j.taken = map[string]Record{}, b.records
	if j.options.Leader != nil {
		b.leader = j.options.Leader()
	}
	if b.leader != nil || j.options.Leader == nil {
		b.records[KeyMeta] = j.options.Meta
	}
	for key, r := range b.records {
		b.contents[key] = r.Content()
	}
	return b
}

// apply encodes a batch and writes it.
func (j *Journal) apply(b batch) error {
	changes := make([]Change, 0, len(b.contents))
	for key, content := range b.contents {
		change := Change{Key: key}
		if content != nil {
			var err error
			if change.Value, err = Encode(content); err != nil {
				return fmt.Errorf("encode the record %q: %w", key, err)
			}
		}
		changes = append(changes, change)
	}
	ctx, cancel := context.WithTimeout(j.life, applyTimeout)
	defer cancel()
	if shared, ok := j.options.Store.(SharedStore); ok && b.leader != nil {
		return shared.ApplyIf(ctx, Change{Key: KeyLeader, Value: b.leader}, changes)
	}
	return j.options.Store.Apply(ctx, changes)
}

// settleLocked ends a write. If it failed, its records are dirty again. If another process has
// become the leader meanwhile, a failed write is not repeated, whatever its error was.
func (j *Journal) settleLocked(b batch, err error) {
	if err != nil && b.leader != nil && !bytes.Equal(b.leader, j.options.Leader()) {
		err = ErrCondition
	}
	j.taken = nil
	if err == nil {
		j.saved = b.through
		if len(b.records) > 0 {
			j.failed = nil
		}
		for key, r := range b.records {
			if _, again := j.dirty[key]; !again {
				r.Saved()
			}
		}
	} else {
		maps.Copy(b.records, j.dirty)
		j.dirty = b.records
		if errors.Is(err, ErrCondition) {
			j.options.Replaced() // it discards the records that only the leader may store
		} else {
			j.failed = err
		}
	}
	j.busy = false
	j.last = attempt{j.last.number + 1, b.through, err}
	j.ended.Wake()
}

// Commit returns the function that an engine calls before it acknowledges received messages; nil
// without a journal.
func (j *Journal) Commit() func(context.Context) error {
	if j == nil {
		return nil
	}
	return j.Flush
}

// Run writes marked records until ctx ends, and repeats failed writes.
func (j *Journal) Run(ctx context.Context) {
	if j == nil {
		return
	}
	logger := klog.FromContext(ctx)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
		}
		err := j.Flush(ctx)
		if err == nil || ctx.Err() != nil {
			failing = false
			continue
		}
		if errors.Is(err, ErrCondition) {
			j.wakeUp() // the store works, but has another leader
			continue
		}
		if !failing {
			logger.Error(err, "Failed to write to the Store, retrying")
		}
		failing = true
		_ = wait.Sleep(ctx, j.options.Clock, retryInterval)
		j.wakeUp()
	}
}

// wakeUp makes Run write the changed records.
func (j *Journal) wakeUp() {
	j.options.Lock.Lock()
	defer j.options.Lock.Unlock()
	j.wakeUpLocked()
}

func (j *Journal) wakeUpLocked() {
	if len(j.dirty) > 0 {
		j.wake.Set()
	}
}

// Finish writes the changed records after everything else has ended, and prevents further writes.
// It logs the number of records that could not be stored; calls that wait for them return the
// error.
func (j *Journal) Finish(ctx context.Context) {
	if j == nil {
		return
	}
	err := j.Flush(context.WithoutCancel(ctx))
	j.options.Lock.Lock()
	j.closed = true
	j.options.Lock.Unlock()
	j.writes.Wait()
	if err == nil || errors.Is(err, ErrCondition) {
		return
	}
	j.options.Lock.Lock()
	defer j.options.Lock.Unlock()
	klog.FromContext(ctx).Error(err, "Stopped with changes that are not stored", "records", len(j.dirty))
}

// Limit ends all writes, including a write in progress, DrainTimeout plus 5 s after ctx has ended.
// The function that it returns cancels that, and waits for Limit's goroutine.
func (j *Journal) Limit(ctx context.Context) (stop func()) {
	if j == nil {
		return func() {}
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-waiting.Done():
			return
		case <-ctx.Done():
		}
		if wait.Sleep(waiting, j.options.Clock, max(j.options.DrainTimeout, 0)+lastWrites) == nil {
			j.giveUp()
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}

// Healthy returns the error of the last write, if it failed.
func (j *Journal) Healthy() error {
	if j == nil {
		return nil
	}
	j.options.Lock.Lock()
	defer j.options.Lock.Unlock()
	if j.failed != nil {
		return fmt.Errorf("write to the Store: %w", j.failed)
	}
	return nil
}
