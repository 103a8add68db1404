// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package turns shares memory among the requests of several clients.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Turns limits the memory of all requests together while they are answered. One client may have
// three quarters of it. Free memory goes to the client that has least.
type Turns struct {
	most int // for one client, in bytes

	mu      sync.Mutex
	free    int
	running map[string]int // bytes by client
	waiting []*turn        // in order of arrival
}

type turn struct {
	client string
	bytes  int
	begins chan struct{}
}

// New returns turns with a total number of bytes.
func New(bytes int) *Turns {
	return &Turns{most: bytes / 4 * 3, free: bytes, running: map[string]int{}}
}

// Take waits for memory, until ctx ends. A request that needs more than the limit of a client gets
// the limit.
func (t *Turns) Take(ctx context.Context, client string, bytes int) (release func(), err error) {
	w := &turn{client, min(bytes, t.most), make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.beginLocked()
	t.mu.Unlock()
	select {
	case <-w.begins:
		return sync.OnceFunc(func() { t.end(w) }), nil
	case <-ctx.Done():
		t.end(w)
		return nil, context.Cause(ctx)
	}
}

func (t *Turns) beginLocked() {
	for {
		var next *turn
		for _, w := range t.waiting {
			n := t.running[w.client]
			if n+w.bytes <= t.most && (next == nil || n < t.running[next.client]) {
				next = w
			}
		}
		if next == nil || next.bytes > t.free {
			return
		}
		t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool { return w == next })
		t.free -= next.bytes
		t.running[next.client] += next.bytes
		close(next.begins)
	}
}

func (t *Turns) end(w *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.free += w.bytes
		if t.running[w.client] -= w.bytes; t.running[w.client] == 0 {
			delete(t.running, w.client)
		}
	}
	t.beginLocked()
}
