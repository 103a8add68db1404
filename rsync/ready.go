// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync

import "sync"

// readyQueue is a queue of contexts with pending work. While a worker processes a context, no other
// worker receives it.
type readyQueue struct {
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []string
	dirty  map[string]bool // in the queue, or to be queued after the step
	busy   map[string]bool
	closed bool
}

func newReadyQueue() *readyQueue {
	q := &readyQueue{dirty: map[string]bool{}, busy: map[string]bool{}}
	q.cond = sync.NewCond(&q.mu)
	return q
}

func (q *readyQueue) add(id string) {
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

func (q *readyQueue) get() (string, bool) {
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

func (q *readyQueue) done(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, id)
	if q.dirty[id] && !q.closed {
		q.queue = append(q.queue, id)
		q.cond.Signal()
	}
}

func (q *readyQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}
