// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore

import (
	"context"
	"slices"
	"sync"

	"github.com/spokewire/sdk-go/cloudevents/work"
)

// maxOwnBytes bounds the batches that wait for one follower. A follower that is further behind
// reads them from the server.
const maxOwnBytes = 4 << 20

// ownBatch is a batch that a Store has applied itself.
type ownBatch struct {
	before, at position
	changes    []work.Change
}

// own passes the batches that a Store applies to its followers, without a query. For the leader of
// a source, these are all batches.
type own struct {
	mu        sync.Mutex
	writing   bool // the result of a batch will arrive soon
	followers map[*inbox]struct{}
}

// inbox has the batches for one follower. Its fields are guarded by own.mu.
type inbox struct {
	batches []ownBatch
	size    int
	wake    context.CancelFunc // called after each write
}

func (o *own) join(i *inbox) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.followers == nil {
		o.followers = map[*inbox]struct{}{}
	}
	o.followers[i] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.followers, i)
	}
}

func (o *own) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = true
}

// end records the end of a write. before is the batch before it, or nil if the write was not
// applied or the Store does not know.
func (o *own) end(before *position, at position, changes []work.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	if len(o.followers) == 0 {
		return
	}
	size := 0
	for _, c := range changes {
		size += len(c.Key) + len(c.Value)
	}
	changes = slices.Clone(changes)
	for i := range o.followers {
		if before != nil && (i.size == 0 || i.size+size <= maxOwnBytes) {
			i.batches, i.size = append(i.batches, ownBatch{*before, at, changes}), i.size+size
		}
		i.wake()
	}
}

// take removes the batches of an inbox. wake is called after the next write. pending is whether the
// result of a write will arrive.
func (o *own) take(i *inbox, wake context.CancelFunc) (batches []ownBatch, pending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batches, i.batches, i.size, i.wake = i.batches, nil, 0, wake
	return batches, o.writing
}
