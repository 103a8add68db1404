// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// kept is a record that a Store keeps. Its methods are called with the works' lock held.
type kept interface {
	// record returns what to keep: a value for encoding/json that nobody changes afterwards, or nil when the record is
	// gone.
	record() any
	// saved is called when what record has returned last is durable.
	saved()
}

// attempt is a write that has ended.
type attempt struct {
	number  uint64
	through uint64 // the marks that it covered
	err     error
}

// journal brings records that changed to a Store. Callers that need their change to be durable
// flush: one of them begins a write of all that has changed, in a goroutine that the journal owns,
// and all wait for it, each until its context ends. There is at most one such goroutine, and none
// while nothing is written.
//
// A nil journal is one without a Store: everything is as durable as it gets.
type journal struct {
	store  Store
	lock   sync.Locker // of the works; it guards dirty
	dirty  map[string]kept
	meta   kept          // goes with every batch of who may write
	marked uint64        // counts marks; guarded by lock, as are those that follow
	saved  uint64        // which of them are durable: all up to this one
	busy   bool          // a write is under way
	closed bool          // no write begins any more
	last   attempt       // the last write that has ended
	ended  chan struct{} // closed and replaced when a write ends
	wake   chan struct{} // has room for one token: something is dirty
	failed error         // of the last write

	life   context.Context // of writes; ended by giveUp
	giveUp context.CancelFunc
	writes sync.WaitGroup // the one that is under way

	clock   clock.WithTicker
	grace   time.Duration // that writes have once Start is to end
	metrics *metrics

	// What replicas of a source do in another way. Both are called with lock held.
	writer   func() []byte // the record under keyWriter as long as this process may write; nil where it may not
	replaced func()        // called when it has turned out that it may not
}

const (
	// applyTimeout bounds one transaction. Callers whose own context ends first leave it to the others.
	applyTimeout = 30 * time.Second
	// retryInterval is how long run waits before it writes again what could not be written.
	retryInterval = time.Second
	// lastWrites is how long the store has at the end, beside the time that the outbox has.
	lastWrites = 5 * time.Second
)

func newJournal(s Store, lock sync.Locker, meta kept, c clock.WithTicker, m *metrics, drain time.Duration) *journal {
	if s == nil {
		return nil
	}
	life, giveUp := context.WithCancel(context.Background())
	return &journal{
		store: s, lock: lock, meta: meta, clock: c, metrics: m,
		life: life, giveUp: giveUp, grace: max(drain, 0) + lastWrites,
		dirty: map[string]kept{},
		ended: make(chan struct{}),
		wake:  make(chan struct{}, 1),
	}
}

// mark notes that a record has changed. The works' lock is held.
func (j *journal) mark(key string, k kept) {
	j.dirty[key] = k
	j.marked++
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// unsaved is how many records have changed since they were written. The works' lock is held.
func (j *journal) unsaved() int {
	if j == nil {
		return 0
	}
	return len(j.dirty)
}

// discard forgets marks, but for those of records that keep says. The works' lock is held.
func (j *journal) discard(keep func(kept) bool) {
	maps.DeleteFunc(j.dirty, func(_ string, k kept) bool {
		if keep(k) {
			return false
		}
		k.saved()
		return true
	})
}

// flush returns when all that was marked before is durable, or cannot be made so, or ctx has ended.
// Callers share writes: a caller for which another has begun one waits for that.
func (j *journal) flush(ctx context.Context) error {
	if j == nil {
		return nil
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	target, begin := j.marked, j.last.number
	for j.saved < target {
		switch {
		case j.last.number > begin && j.last.err != nil && j.last.through >= target:
			return j.last.err // it was tried for this caller as well
		case j.closed:
			return cmp.Or[error](j.failed, errStopped)
		case !j.busy:
			j.busy = true
			j.writes.Go(j.write)
		}
		ended := j.ended
		j.lock.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		j.lock.Lock()
		if err := ctx.Err(); err != nil && j.saved < target {
			return err
		}
	}
	return nil
}

// write brings all that is dirty to the store. It takes the lock, but not while the store works.
func (j *journal) write() {
	j.lock.Lock()
	defer j.lock.Unlock()
	through := j.marked
	err := j.writeBatch()
	if err == nil {
		j.saved = through
	}
	j.busy = false
	j.last = attempt{j.last.number + 1, through, err}
	close(j.ended)
	j.ended = make(chan struct{})
}

// writeBatch is the part of write that may fail.
func (j *journal) writeBatch() error {
	batch := j.dirty
	if len(batch) == 0 {
		return nil
	}
	writer := j.condition()
	if writer != nil || j.writer == nil {
		batch[keyMeta] = j.meta
	}
	j.dirty = map[string]kept{}
	records := make(map[string]any, len(batch))
	for key, k := range batch {
		records[key] = k.record()
	}
	j.lock.Unlock()

	began := j.clock.Now()
	err := j.apply(writer, records)
	j.metrics.wrote(began, err)

	j.lock.Lock()
	if errors.Is(err, ErrCondition) {
		maps.Copy(batch, j.dirty)
		j.dirty = batch
		j.replaced() // which discards what this process has no say in
		return err
	}
	j.failed = err
	for key, k := range batch {
		_, again := j.dirty[key]
		switch {
		case err != nil && !again:
			j.dirty[key] = k
		case err == nil && !again:
			k.saved()
		}
	}
	return err
}

// condition is the record that must not have changed for a batch to be written; nil for none. The lock is held.
func (j *journal) condition() []byte {
	if j.writer == nil {
		return nil
	}
	return j.writer()
}

// apply writes records as one batch. The values are encoded here, outside the works' lock.
func (j *journal) apply(writer []byte, records map[string]any) error {
	changes := make([]Change, 0, len(records))
	for key, record := range records {
		change := Change{Key: key}
		if record != nil {
			var err error
			if change.Value, err = encodeRecord(record); err != nil {
				return fmt.Errorf("encode the record %q: %w", key, err)
			}
		}
		changes = append(changes, change)
	}
	ctx, cancel := context.WithTimeout(j.life, applyTimeout)
	defer cancel()
	if shared, ok := j.store.(SharedStore); ok && writer != nil {
		return shared.ApplyIf(ctx, Change{Key: keyWriter, Value: writer}, changes)
	}
	return j.store.Apply(ctx, changes)
}

// encodeRecord leaves the manifests as they are: encoding/json would escape them for HTML.
func encodeRecord(record any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(record); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// commit is what an engine calls before it acknowledges what it received; nil without a journal.
func (j *journal) commit() func(context.Context) error {
	if j == nil {
		return nil
	}
	return j.flush
}

// run writes what nobody waits for, and what could not be written, until ctx ends; then once more.
func (j *journal) run(ctx context.Context, c clock.WithTicker) {
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
		err := j.flush(ctx)
		if err == nil || ctx.Err() != nil {
			failing = false
			continue
		}
		if errors.Is(err, ErrCondition) {
			j.wakeUp() // for what is left: the store is well, but another replica's
			continue
		}
		if !failing {
			logger.Error(err, "Cannot write to the store, trying again")
		}
		failing = true
		timer := c.NewTimer(retryInterval)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		j.wakeUp()
	}
}

// wakeUp lets run write what is dirty, if anything is.
func (j *journal) wakeUp() {
	j.lock.Lock()
	defer j.lock.Unlock()
	if len(j.dirty) == 0 {
		return
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// finish writes what is dirty when everything else has ended, and lets no other write begin. An
// error was logged, or is here; the calls that it concerns return it.
func (j *journal) finish(ctx context.Context) {
	if j == nil {
		return
	}
	err := j.flush(context.WithoutCancel(ctx))
	j.lock.Lock()
	j.closed = true
	j.lock.Unlock()
	j.writes.Wait()
	if err == nil || errors.Is(err, ErrCondition) {
		return
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	klog.FromContext(ctx).Error(err, "Stopped with changes that are not stored", "records", len(j.dirty))
}

// limit ends all writes, also one under way, a while after ctx has ended, unless the function that it returns is called
// before. That function waits for limit's goroutine.
func (j *journal) limit(ctx context.Context) (stop func()) {
	if j == nil {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		timer := j.clock.NewTimer(j.grace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C():
			j.giveUp()
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// healthy returns the error of the last write, if it failed.
func (j *journal) healthy() error {
	if j == nil {
		return nil
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.failed != nil {
		return fmt.Errorf("cannot write to the store: %w", j.failed)
	}
	return nil
}

// durable is flush for the clientset: it makes the error the API server's for such a case.
func (j *journal) durable(ctx context.Context) error {
	err := j.flush(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCondition):
		return errReplaced
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return unconfirmed(err)
	}
	return apierrors.NewInternalError(fmt.Errorf("the change was made in memory but is not stored yet: %w", err))
}

// contextError is a Timeout that is also the error of the caller's context.
type contextError struct {
	*apierrors.StatusError
	cause error
}

// unconfirmed returns the error of a write whose context has ended before its change was stored.
func unconfirmed(cause error) error {
	return &contextError{apierrors.NewTimeoutError(fmt.Sprintf(
		"the change was made in memory but is not stored yet: it is stored as soon as possible, read it again to find out: %v", cause), 0), cause}
}

// Unwrap lets errors.Is find the context's error, and errors.As the StatusError.
func (e *contextError) Unwrap() []error { return []error{e.StatusError, e.cause} }
