// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package answers stores the answers of another program for a short time.
package answers

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Cache stores answers by question. Its method may be called from any goroutine.
type Cache[Q comparable, A any] struct {
	clock clock.PassiveClock
	life  time.Duration
	most  int // of bytes
	size  func(Q, A) int

	mu      sync.Mutex
	flights map[Q]*flight[A]
	stored  map[Q]*answer[Q, A]
	order   []*answer[Q, A] // of stored, and of answers that a later one has replaced
	bytes   int             // of order
}

// flight is a question without an answer. The fields are valid when done is closed.
type flight[A any] struct {
	done      chan struct{}
	value     A
	err       error
	abandoned bool // the context of the caller that asks has ended
}

type answer[Q comparable, A any] struct {
	question Q
	value    A
	until    time.Time
	size     int
}

// New returns a cache without answers. An answer is used for life after its question was asked. All
// answers together have at most the given number of bytes; size returns those of one.
func New[Q comparable, A any](c clock.PassiveClock, life time.Duration, most int, size func(Q, A) int) *Cache[Q, A] {
	return &Cache[Q, A]{
		clock: c, life: life, most: most, size: size,
		flights: map[Q]*flight[A]{}, stored: map[Q]*answer[Q, A]{},
	}
}

// Ask returns the stored answer, or calls ask with ctx. Concurrent callers with the same question
// share one call of ask. An error is returned to them, and not stored. Ask returns the error of ctx
// when it ends.
func (c *Cache[Q, A]) Ask(ctx context.Context, q Q, ask func(context.Context) (A, error)) (A, error) {
	for {
		c.mu.Lock()
		now := c.clock.Now()
		if a := c.stored[q]; a != nil && now.Before(a.until) {
			c.mu.Unlock()
			return a.value, nil
		}
		f := c.flights[q]
		if f == nil {
			f = &flight[A]{done: make(chan struct{})}
			c.flights[q] = f
			c.mu.Unlock()
			f.value, f.err = ask(ctx)
			c.land(ctx, q, f, now)
			return f.value, f.err
		}
		c.mu.Unlock()
		select {
		case <-f.done:
			if !f.abandoned {
				return f.value, f.err
			}
		case <-ctx.Done():
			var none A
			return none, ctx.Err()
		}
	}
}

// land ends a flight, and stores its answer.
func (c *Cache[Q, A]) land(ctx context.Context, q Q, f *flight[A], asked time.Time) {
	f.abandoned = f.err != nil && ctx.Err() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	delete(c.flights, q)
	if f.err != nil {
		return
	}
	a := &answer[Q, A]{question: q, value: f.value, until: asked.Add(c.life), size: c.size(q, f.value)}
	if a.size > c.most {
		return
	}
	c.makeRoomLocked(a.size)
	c.stored[q] = a
	c.order = append(c.order, a)
	c.bytes += a.size
}

// makeRoomLocked removes the oldest answers: the expired ones, and others until size bytes are free.
func (c *Cache[Q, A]) makeRoomLocked(size int) {
	now := c.clock.Now()
	n := 0
	for _, a := range c.order {
		if now.Before(a.until) && c.bytes+size <= c.most {
			break
		}
		if c.stored[a.question] == a {
			delete(c.stored, a.question)
		}
		c.bytes -= a.size
		n++
	}
	clear(c.order[:n])
	if c.order = c.order[n:]; len(c.order) == 0 {
		c.order = nil
	}
}
