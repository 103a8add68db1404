// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package readyqueue has a queue of app contexts for workers.
package readyqueue

import "sync"

// Queue is a queue of contexts with pending work. While a worker processes a context, no other
// worker receives it. All methods may be called from any goroutine.
type Queue struct {
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []string
	dirty  map[string]bool // in the queue, or to be queued after the step
	busy   map[string]bool
	closed bool
}

// New returns an empty queue.
func New() *Queue {
	q := &Queue{dirty: map[string]bool{}, busy: map[string]bool{}}
	q.cond = sync.NewCond(&q.mu)
	return q
}

// Add queues a context, unless it is queued or the queue is closed.
func (q *Queue) Add(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.dirty[id] {
		return
	}
	q.dirty[id] = true
	if !q.busy[id] {
		q.queue = append(q.queue, id)
		q.cond.Signal()
	}
}

// Get waits for the next context. It returns false when the queue is closed.
func (q *Queue) Get() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) == 0 && !q.closed {
		q.cond.Wait()
	}
	if q.closed {
		return "", false
	}
	id := q.queue[0]
	q.queue = q.queue[1:]
	delete(q.dirty, id)
	q.busy[id] = true
	return id, true
}

// Done ends the work on a context that Get returned.
func (q *Queue) Done(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, id)
	if q.dirty[id] && !q.closed {
		q.queue = append(q.queue, id)
		q.cond.Signal()
	}
}

// Close ends all calls of Get.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}
