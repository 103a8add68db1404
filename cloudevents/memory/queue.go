// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"

	"github.com/spokewire/sdk-go/internal/wait"
)

// queue passes items from many goroutines to one. It grows as needed: a channel would need the
// memory of its whole capacity for each connection.
type queue[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	wake   wait.Signal // there may be items
}

func newQueue[T any]() *queue[T] { return &queue[T]{wake: wait.NewSignal()} }

// push adds an item. It returns false when the queue was closed.
func (q *queue[T]) push(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, item)
	if len(q.items) == 1 {
		q.wake.Set()
	}
	return true
}

// take waits for items and returns all of them. buf is the result of the previous call: its memory
// is reused for later items. take returns nil when stop is closed.
func (q *queue[T]) take(buf []T, stop <-chan struct{}) []T {
	clear(buf) // handled items must not stay in memory
	for {
		select {
		case <-stop:
			return nil
		case <-q.wake:
		}
		q.mu.Lock()
		items := q.items
		q.items = buf[:0]
		q.mu.Unlock()
		if len(items) > 0 {
			return items
		}
	}
}

func (q *queue[T]) close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	items := q.items
	q.items = nil
	return items
}
