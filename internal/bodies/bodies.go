// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package bodies reads the bodies of HTTP requests within a memory limit that all clients share.
package bodies

import (
	"errors"
	"io"
	"math"
	"sync"

	"github.com/spokewire/sdk-go/internal/connlimit"
)

const (
	// firstRead is the initial capacity of a buffer.
	firstRead = 4 << 10
	// maxPooled is the largest buffer that is kept for the next request.
	maxPooled = 256 << 10
	// smallBody is the largest body that may use the last quarter of the memory.
	smallBody = 32 << 10
)

// ErrNoMemory is returned if other bodies use the memory that a body needs.
var ErrNoMemory = errors.New("the bodies of requests take all memory that they may")

// Bodies limits the memory of the bodies of all requests to a server. It lends buffers, which grow
// with the bytes that have arrived.
type Bodies struct {
	largest int64 // of one body
	limit   int64
	pool    sync.Pool

	mu    sync.Mutex
	taken int64
	large map[string]int64 // bytes of buffers above smallBody, by client
}

// New returns bodies of up to largest bytes each. Together they use up to limit bytes, or twice the
// largest body if that is more. Large bodies of all clients may use three quarters of the memory.
// Those of one client may use two thirds of that.
func New(largest, limit int64) *Bodies {
	largest = min(largest, math.MaxInt64/2-1) // one more byte to detect the end
	return &Bodies{largest: largest, limit: max(2*(largest+1), limit), large: map[string]int64{}}
}

// Limit returns the limit of all bodies, in bytes.
func (m *Bodies) Limit() int64 { return m.limit }

func (m *Bodies) take(client string, from, to int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.taken + to - from
	if to <= smallBody {
		if taken > m.limit {
			return false
		}
		m.taken = taken
		return true
	}
	client = connlimit.Address(client)
	large := m.large[client] + to
	if from > smallBody {
		large -= from
	}
	if taken > m.limit-m.limit/4 || large > m.limit/2 {
		return false
	}
	m.taken, m.large[client] = taken, large
	return true
}

func (m *Bodies) give(client string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken -= size
	if size <= smallBody {
		return
	}
	client = connlimit.Address(client)
	if m.large[client] -= size; m.large[client] == 0 {
		delete(m.large, client)
	}
}

// Buffer has the body of a request. Decoded values must not refer to it.
type Buffer struct {
	Data []byte // its capacity counts as used

	of     *Bodies
	client string // its address
}

// Borrow returns an empty buffer for a client, which is identified by its address. The caller must
// call Release.
func (m *Bodies) Borrow(client string) *Buffer {
	kept, _ := m.pool.Get().(*Buffer)
	if kept == nil || !m.take(client, 0, int64(cap(kept.Data))) {
		return &Buffer{of: m, client: client}
	}
	kept.client = client
	return kept
}

// Release returns the buffer to its Bodies.
func (b *Buffer) Release() {
	b.of.give(b.client, int64(cap(b.Data)))
	if cap(b.Data) <= maxPooled {
		b.Data = b.Data[:0]
		b.of.pool.Put(b)
	}
}

// Fill reads all of r. Size is the announced length, or -1. It returns [ErrNoMemory] if other
// bodies use too much memory.
func (b *Buffer) Fill(r io.Reader, size int64) error {
	for {
		if len(b.Data) == cap(b.Data) && !b.grow(size) {
			return ErrNoMemory
		}
		n, err := r.Read(b.Data[len(b.Data):cap(b.Data)])
		b.Data = b.Data[:len(b.Data)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow doubles the capacity, or sets it to the announced length if that is less. It returns false
// without memory.
func (b *Buffer) grow(size int64) bool {
	have := int64(cap(b.Data))
	want := min(max(2*have, firstRead), b.of.largest+1)
	if size >= have && size+1 < want && have > 0 {
		want = size + 1
	}
	if !b.of.take(b.client, have, want) {
		return false
	}
	b.Data = append(make([]byte, 0, want), b.Data...)
	return true
}
