// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slowStore records its batches by key. A batch takes a second, and fails with fail.
type slowStore struct {
	journal.Store
	fail error

	mu      sync.Mutex
	batches [][]string
}

func (s *slowStore) written() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *slowStore) Apply(_ context.Context, changes []journal.Change) error {
	time.Sleep(time.Second)
	if s.fail != nil {
		return s.fail
	}
	keys := make([]string, len(changes))
	for i, c := range changes {
		keys[i] = c.Key
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, keys)
	return nil
}

// record counts the calls of Saved.
type record struct{ saved atomic.Int64 }

func (r *record) Content() any { return "content" }
func (r *record) Saved()       { r.saved.Add(1) }

func inJournal(
	t *testing.T, script func(ctx context.Context, j *journal.Journal, s *slowStore, mark func(key string) *record),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		s := &slowStore{}
		j := journal.New(journal.Options{
			Store: s, Lock: &mu, Meta: &record{}, Clock: clock.RealClock{}, Wrote: func(time.Time, error) {},
		})
		script(t.Context(), j, s, func(key string) *record {
			mu.Lock()
			defer mu.Unlock()
			r := &record{}
			j.MarkLocked(key, r)
			return r
		})
	})
}

// TestFlushesShareWrites: while a batch is written, all further records wait for one next batch.
func TestFlushesShareWrites(t *testing.T) {
	inJournal(t, func(ctx context.Context, j *journal.Journal, s *slowStore, mark func(string) *record) {
		first := mark("work/first")
		var group sync.WaitGroup
		flush := func() {
			if err := j.Flush(ctx); err != nil {
				t.Error(err)
			}
		}
		group.Go(flush)
		synctest.Wait()
		for range 10 {
			mark("work/second")
			group.Go(flush)
		}
		synctest.Wait()
		if batches, saved := s.written(), first.saved.Load(); len(batches) > 0 || saved > 0 {
			t.Errorf("before the write has ended: batches %v, Saved was called %d times", batches, saved)
		}
		group.Wait()
		sizes := []int{}
		for _, keys := range s.written() {
			sizes = append(sizes, len(keys))
		}
		if diff := cmp.Diff([]int{2, 2}, sizes); diff != "" || first.saved.Load() != 1 { // a record and Meta each
			t.Errorf("Saved was called %d times, batches (-want +got):\n%s", first.saved.Load(), diff)
		}
	})
}

// TestFailedWriteIsRepeated: Flush returns the error of its write, and Run repeats the write.
func TestFailedWriteIsRepeated(t *testing.T) {
	inJournal(t, func(ctx context.Context, j *journal.Journal, s *slowStore, mark func(string) *record) {
		s.fail = errors.New("no space left")
		r := mark("work/a")
		if err := j.Flush(ctx); !errors.Is(err, s.fail) || j.Healthy() == nil || r.saved.Load() > 0 {
			t.Errorf("Flush: %v, Healthy: %v, Saved was called %d times", err, j.Healthy(), r.saved.Load())
		}
		s.fail = nil
		running, stop := context.WithCancel(ctx)
		var group sync.WaitGroup
		group.Go(func() { j.Run(running) })
		time.Sleep(5 * time.Second)
		if err := j.Healthy(); err != nil || r.saved.Load() != 1 {
			t.Errorf("Healthy: %v, Saved was called %d times", err, r.saved.Load())
		}
		stop()
		group.Wait()
	})
}

// TestFlushReturnsWithContext: Flush returns when its context ends, and the write continues.
func TestFlushReturnsWithContext(t *testing.T) {
	inJournal(t, func(ctx context.Context, j *journal.Journal, _ *slowStore, mark func(string) *record) {
		r := mark("work/a")
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := j.Flush(short); !errors.Is(err, context.DeadlineExceeded) || r.saved.Load() > 0 {
			t.Errorf("Flush: %v, Saved was called %d times", err, r.saved.Load())
		}
		time.Sleep(2 * time.Second)
		if r.saved.Load() != 1 {
			t.Errorf("Saved was called %d times", r.saved.Load())
		}
	})
}

// TestFinishEndsJournal: Finish writes all records. Later records are not written.
func TestFinishEndsJournal(t *testing.T) {
	inJournal(t, func(ctx context.Context, j *journal.Journal, _ *slowStore, mark func(string) *record) {
		r := mark("work/a")
		j.Finish(ctx)
		mark("work/b")
		if err := j.Flush(ctx); !errors.Is(err, journal.ErrClosed) || r.saved.Load() != 1 {
			t.Errorf("Flush: %v, Saved was called %d times", err, r.saved.Load())
		}
	})
}

// TestNilJournal: without a Store there is nothing to wait for.
func TestNilJournal(t *testing.T) {
	var j *journal.Journal
	j.Run(t.Context())
	j.Finish(t.Context())
	if err := j.Flush(t.Context()); err != nil || j.Commit() != nil {
		t.Errorf("Flush: %v", err)
	}
}
