// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package wait has signals, broadcasts, sleeps and backoffs.
package wait

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Sleep waits for a duration. It returns the error of ctx if ctx ends first.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backoff returns a delay that doubles with each attempt, counted from 0, up to most. It is random
// between half of the delay and all of it, so clients that failed together try again at different
// times.
func Backoff(first, most time.Duration, attempt int) time.Duration {
	d := most
	if attempt < 32 && first < most>>attempt {
		d = first << attempt
	}
	return d/2 + rand.N(d/2+1)
}

// Signal wakes one goroutine: the one that receives from it, or the next one that does. Setting a
// signal that is already set has no effect.
type Signal chan struct{}

// NewSignal returns a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Broadcast wakes all waiting goroutines. The zero value is ready for use. Its methods do not lock.
type Broadcast struct{ next chan struct{} }

// Next returns a channel that the next Wake closes.
func (b *Broadcast) Next() <-chan struct{} {
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Wake wakes all goroutines that wait on a channel of Next.
func (b *Broadcast) Wake() {
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Changes is a [Broadcast] that may be used concurrently, while any mutex is held. Nil never wakes.
type Changes struct {
	mu   sync.Mutex
	news Broadcast
}

// Next returns a channel that the next Wake closes.
func (c *Changes) Next() <-chan struct{} {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news.Next()
}

// Wake wakes all goroutines that wait on a channel of Next.
func (c *Changes) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news.Wake()
}
