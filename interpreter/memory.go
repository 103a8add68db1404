// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/spokewire/sdk-go/internal/connlimit"
	"github.com/spokewire/sdk-go/internal/turns"
)

const (
	// firstRead is the capacity that a buffer begins with.
	firstRead = 4 << 10
	// maxPooled is the largest buffer that is kept for the next request.
	maxPooled = 256 << 10
	// bodiesMemory is the limit for the bodies of all requests. It is higher if two of the largest
	// bodies need more.
	bodiesMemory = 128 << 20
	// smallBody is the largest body that may take the last quarter of the memory.
	smallBody = 32 << 10
	// workMemory is the limit for answering all requests that need more than smallWork.
	workMemory = 128 << 20
	smallWork  = 1 << 20
	// byteWork and partWork estimate the memory to answer a request, for each byte of its body and
	// for each value in the body.
	byteWork, partWork = 8, 512
)

var errNoMemory = errors.New("the bodies of requests take all memory that they may")

// memory bounds the memory of all requests to a server. It lends buffers for their bodies, which grow
// with the bytes that have arrived. The handlers of a server share it.
type memory struct {
	largest int64 // of one body
	limit   int64
	pool    sync.Pool
	turns   *turns.Turns

	mu    sync.Mutex
	taken int64
	large map[string]int64 // bytes of buffers above smallBody, by client
}

func newMemory(largest int64) *memory {
	largest = min(largest, math.MaxInt64/2-1) // one more byte to see the end
	return &memory{
		largest: largest,
		limit:   max(2*(largest+1), bodiesMemory),
		turns:   turns.New(workMemory),
		large:   map[string]int64{},
	}
}

// take reports whether a buffer of a client may grow from one size to another. Large buffers of all
// clients have three quarters of the memory, those of one client two thirds of that.
func (m *memory) take(client string, from, to int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if to <= smallBody {
		if m.taken+to-from > m.limit {
			return false
		}
		m.taken += to - from
		return true
	}
	large := to
	if from > smallBody {
		large -= from
	}
	client = connlimit.Address(client)
	if m.taken+to-from > m.limit-m.limit/4 || m.large[client]+large > m.limit/2 {
		return false
	}
	m.taken += to - from
	m.large[client] += large
	return true
}

// give returns a buffer's memory.
func (m *memory) give(client string, size int64) {
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

// turn waits until there is memory to answer a request of a client. The caller calls end when it is
// answered.
func (m *memory) turn(ctx context.Context, client string, body []byte) (end func(), err error) {
	values := bytes.Count(body, comma) + bytes.Count(body, brace) + bytes.Count(body, bracket)
	work := byteWork*len(body) + partWork*values
	if work <= smallWork {
		return func() {}, nil
	}
	return m.turns.Take(ctx, connlimit.Address(client), work)
}

// What a value in JSON has before it.
var comma, brace, bracket = []byte{','}, []byte{'{'}, []byte{'['}

// buffer holds the body of a request. Nothing that is decoded refers to it.
type buffer struct {
	of     *memory
	client string // its address
	data   []byte // its capacity is taken
}

// borrow returns an empty buffer for a client, to be released.
func (m *memory) borrow(client string) *buffer {
	kept, _ := m.pool.Get().(*buffer)
	if kept == nil || !m.take(client, 0, int64(cap(kept.data))) {
		return &buffer{of: m, client: client}
	}
	kept.client = client
	return kept
}

func (b *buffer) release() {
	b.of.give(b.client, int64(cap(b.data)))
	if cap(b.data) <= maxPooled {
		b.data = b.data[:0]
		b.of.pool.Put(b)
	}
}

// fill reads all of r. Size is the announced length, or -1. It returns errNoMemory if other bodies
// take too much.
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

// grow doubles the capacity, or sets it to the announced length if that is less.
func (b *buffer) grow(size int64) bool {
	have := int64(cap(b.data))
	want := min(max(2*have, firstRead), b.of.largest+1)
	if size >= have && size+1 < want && have > 0 {
		want = size + 1
	}
	if !b.of.take(b.client, have, want) {
		return false
	}
	b.data = append(make([]byte, 0, want), b.data...)
	return true
}

// readUntil is when a body must be there: when the handler's time ends, or that of the server, if
// it is shorter.
func readUntil(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		if end := time.Now().Add(server.ReadTimeout); end.Before(deadline) {
			return end
		}
	}
	return deadline
}
