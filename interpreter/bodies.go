// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// firstRead is the capacity that a buffer begins with.
	firstRead = 4 << 10
	// maxPooled is the largest buffer that is kept for the next request.
	maxPooled = 256 << 10
	// minBodies is what all bodies may take at the least, so that small limits leave memory to wait for some thousand of them.
	minBodies = 16 << 20
)

var errNoMemory = errors.New("the bodies of requests take all memory that they may")

// bodies lends buffers for the bodies of requests, which hold no more than limit bytes together. A buffer grows with what has
// arrived, so that a body that does not come takes little. A server's handlers share them.
type bodies struct {
	largest int64 // of one body
	limit   int64
	taken   atomic.Int64
	pool    sync.Pool
}

// newBodies has memory for n bodies of the largest size.
func newBodies(largest int64, n int) *bodies {
	b := &bodies{largest: min(largest, math.MaxInt64-1), limit: math.MaxInt64}
	if each := b.largest + 1; each <= math.MaxInt64/int64(n) { // one more byte to see the end
		b.limit = max(each*int64(n), minBodies)
	}
	return b
}

// take reports whether there is memory for n bytes more.
func (b *bodies) take(n int) bool {
	if b.taken.Add(int64(n)) <= b.limit {
		return true
	}
	b.taken.Add(-int64(n))
	return false
}

// buffer holds the body of a request. Nothing that is decoded refers to it.
type buffer struct {
	of   *bodies
	data []byte // its capacity is taken
}

// borrow returns an empty buffer, to be released.
func (b *bodies) borrow() *buffer {
	kept, _ := b.pool.Get().(*buffer)
	if kept == nil || !b.take(cap(kept.data)) {
		return &buffer{of: b}
	}
	return kept
}

func (b *buffer) release() {
	b.of.taken.Add(-int64(cap(b.data)))
	if cap(b.data) <= maxPooled {
		b.data = b.data[:0]
		b.of.pool.Put(b)
	}
}

// fill reads all of r, which says that it has size bytes, or -1. It fails with errNoMemory where other bodies take too much.
func (b *buffer) fill(r io.Reader, size int64) error {
	for {
		if len(b.data) == cap(b.data) && !b.grow(size) {
			return errNoMemory
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow doubles the capacity, or makes it what size says, if that is less.
func (b *buffer) grow(size int64) bool {
	have := int64(cap(b.data))
	want := min(max(2*have, firstRead), b.of.largest+1)
	if size >= have && size+1 < want && have > 0 {
		want = size + 1
	}
	if !b.of.take(int(want - have)) {
		return false
	}
	b.data = append(make([]byte, 0, want), b.data...)
	return true
}

// readUntil is when a body must be there: when the handler's time ends, or that of the server, if it is shorter.
func readUntil(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		if end := time.Now().Add(server.ReadTimeout); end.Before(deadline) {
			return end
		}
	}
	return deadline
}
