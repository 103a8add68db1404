// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/fleet"
	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
)

// publishers is the number of goroutines that write to the hub's clientset.
const publishers = 16

// load is a number of operations on the works of one prefix. Each operation ends with an event of
// the hub's informer.
type load struct {
	prefix string
	// begin starts operation i.
	begin func(ctx context.Context, i int) error
	// perSecond is the rate at which operations start. With 0, an operation starts when another
	// ends.
	perSecond float64
	underWay  chan struct{}

	began   []atomic.Int64 // as Unix nanoseconds; 0 when operation i has ended
	latency measure.Histogram
	series  *measure.Series
	left    atomic.Int64
	ended   chan struct{} // closed after the last operation
}

// newLoad returns a load of n operations, with a limit of concurrent operations.
func newLoad(prefix string, n, underWay int, begin func(ctx context.Context, i int) error) *load {
	l := &load{
		prefix: prefix, begin: begin, underWay: make(chan struct{}, underWay),
		began: make([]atomic.Int64, n), ended: make(chan struct{}), series: measure.NewSeries(),
	}
	l.left.Store(int64(n))
	return l
}

// finished ends the operation of a work. The hub's informer calls it.
func (l *load) finished(name string) {
	i, ok := fleet.Index(name, l.prefix)
	if !ok || i >= len(l.began) {
		return
	}
	began := l.began[i].Swap(0)
	if began == 0 {
		return
	}
	l.latency.Add(time.Duration(time.Now().UnixNano() - began))
	l.series.Add()
	<-l.underWay
	if l.left.Add(-1) == 0 {
		close(l.ended)
	}
}

// run starts all operations and waits for their end. It returns an error if no operation ends
// during the time stalled.
func (l *load) run(ctx context.Context, stalled time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	jobs, errs := make(chan int), make(chan error, publishers)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() { l.feed(ctx, jobs) })
	for range publishers {
		running.Go(func() {
			for i := range jobs {
				if err := l.begin(ctx, i); err != nil {
					errs <- fmt.Errorf("work %s%d: %w", l.prefix, i, err)
					return
				}
			}
		})
	}
	ticker := time.NewTicker(stalled)
	defer ticker.Stop()
	before := l.left.Load()
	for {
		select {
		case <-l.ended:
			return nil
		case err := <-errs:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			left := l.left.Load()
			if left == before {
				return fmt.Errorf("%w for %v: %d of %d operations have not ended", errStalled, stalled, left,
					len(l.began))
			}
			before = left
		}
	}
}

var errStalled = errors.New("no progress")

// feed sends operations to jobs within the limit, and not before they are due.
func (l *load) feed(ctx context.Context, jobs chan<- int) {
	defer close(jobs)
	start := time.Now()
	for i := range l.began {
		began := start
		if l.perSecond > 0 {
			began = start.Add(time.Duration(float64(i) / l.perSecond * float64(time.Second)))
			time.Sleep(time.Until(began))
		}
		select {
		case l.underWay <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if l.perSecond == 0 {
			began = time.Now()
		}
		// Latency starts when the operation was due, so it includes a late start.
		l.began[i].Store(began.UnixNano())
		select {
		case jobs <- i:
		case <-ctx.Done():
			return
		}
	}
}
