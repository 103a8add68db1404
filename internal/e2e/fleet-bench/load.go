// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// underWay is the limit of operations in progress.
	underWay = 512
	// publishers is the number of goroutines that write to the hub's clientset.
	publishers = 16
)

// load is a number of operations, one on each work with a name prefix. An operation ends with an
// event of the hub's informer.
type load struct {
	prefix  string
	deletes bool // an operation ends when its work has been removed, and otherwise with its status
	// begin starts operation i.
	begin func(ctx context.Context, prefix string, i int) error
	// perSecond is the rate at which operations start. With 0, an operation starts when another
	// ends.
	perSecond float64

	slots   chan struct{}  // of operations in progress
	began   []atomic.Int64 // as Unix nanoseconds; 0 when operation i has ended
	left    atomic.Int64
	latency []time.Duration // of the ended operations
	ended   chan struct{}   // closed after the last operation
}

// newLoad returns a load of n operations.
func newLoad(prefix string, n int, begin func(ctx context.Context, prefix string, i int) error) *load {
	l := &load{
		prefix: prefix, begin: begin, slots: make(chan struct{}, underWay), began: make([]atomic.Int64, n),
		latency: make([]time.Duration, 0, n), ended: make(chan struct{}),
	}
	l.left.Store(int64(n))
	return l
}

// finished ends the operation of a work. Only the goroutine of the informer calls it.
func (l *load) finished(name string) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, l.prefix))
	if err != nil || i >= len(l.began) { // a work of another load
		return
	}
	began := l.began[i].Swap(0)
	if began == 0 {
		return
	}
	l.latency = append(l.latency, time.Duration(time.Now().UnixNano()-began))
	<-l.slots
	if l.left.Add(-1) == 0 {
		close(l.ended)
	}
}

// run starts all operations and waits for their end. It returns an error if no operation ends
// during the time stalled.
func (l *load) run(ctx context.Context, stalled time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	jobs := make(chan int)
	group.Go(func() error { return l.feed(ctx, jobs) })
	for range publishers {
		group.Go(func() error {
			for i := range jobs {
				if err := l.begin(ctx, l.prefix, i); err != nil {
					return fmt.Errorf("work %s%d: %w", l.prefix, i, err)
				}
			}
			return nil
		})
	}
	group.Go(func() error { return l.wait(ctx, stalled) })
	return group.Wait()
}

func (l *load) wait(ctx context.Context, stalled time.Duration) error {
	ticker := time.NewTicker(stalled)
	defer ticker.Stop()
	before := l.left.Load()
	for {
		select {
		case <-l.ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			left := l.left.Load()
			if left == before {
				return fmt.Errorf("no progress for %v: %d of %d operations have not ended", stalled, left, len(l.began))
			}
			before = left
		}
	}
}

// feed sends operations to jobs within the limit, and not before they are due.
func (l *load) feed(ctx context.Context, jobs chan<- int) error {
	defer close(jobs)
	start := time.Now()
	for i := range l.began {
		began := start
		if l.perSecond > 0 {
			began = start.Add(time.Duration(float64(i) / l.perSecond * float64(time.Second)))
			if err := pause(ctx, time.Until(began)); err != nil {
				return err
			}
		}
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if l.perSecond == 0 {
			began = time.Now()
		}
		// Latency starts when the operation was due, so it includes a late start.
		l.began[i].Store(began.UnixNano())
		select {
		case jobs <- i:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pause waits for d. It returns an error if ctx ends earlier.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
