// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig

import (
	"io"
	"sync"
)

// bufferBytes is the part of a body that a handler may write before the client reads it. It bounds
// the memory of a slow client, and spares a switch between goroutines for each small write.
const bufferBytes = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// pipe is the body of a response: an [io.Pipe] with a bounded buffer.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	buffer  *[bufferBytes]byte // nil while there is no data
	data    []byte             // of buffer; data[next:] is not read yet
	next    int
	ended   error // the error of read after the last data
	closed  error // the error of read after the client has closed the body
	dropped int   // bytes that were written after that
}

// write blocks while the buffer is full. After the client has closed the body, write drops
// bufferBytes bytes and then fails. A server buffers small answers too, so handlers log no error for
// each of them.
func (p *pipe) write(data []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for p.closed == nil && len(p.data)-p.next >= bufferBytes && len(data) > 0 {
			p.changed.Wait()
		}
		if p.closed != nil {
			if p.dropped += len(data); p.dropped > bufferBytes {
				return n, io.ErrClosedPipe
			}
			return n + len(data), nil
		}
		if p.buffer == nil && len(data) > 0 {
			p.buffer, _ = buffers.Get().(*[bufferBytes]byte)
			p.data = p.buffer[:0]
		}
		if p.next > 0 {
			p.data, p.next = p.data[:copy(p.data, p.data[p.next:])], 0
		}
		part := data[:min(len(data), bufferBytes-len(p.data))]
		p.data = append(p.data, part...)
		n += len(part)
		p.changed.Broadcast()
		if data = data[len(part):]; len(data) == 0 {
			return n, nil
		}
	}
}

// read blocks until there is data, or an end.
func (p *pipe) read(into []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.closed == nil && p.ended == nil && p.next == len(p.data) && len(into) > 0 {
		p.changed.Wait()
	}
	if p.closed != nil {
		return 0, p.closed
	}
	if p.next == len(p.data) && len(into) > 0 {
		return 0, p.ended
	}
	n := copy(into, p.data[p.next:])
	if p.next += n; p.next == len(p.data) {
		p.dropLocked() // an idle watch keeps no buffer
	}
	p.changed.Broadcast()
	return n, nil
}

// reset drops the data that is not read yet.
func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked()
}

func (p *pipe) dropLocked() {
	if p.buffer != nil {
		buffers.Put(p.buffer)
	}
	p.buffer, p.data, p.next = nil, nil, 0
}

// closeWrite ends the body after the written data.
func (p *pipe) closeWrite(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = err
	p.changed.Broadcast()
}

// closeRead ends the body at once. The first error stays.
func (p *pipe) closeRead(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil {
		p.closed = err
		p.dropLocked()
		p.changed.Broadcast()
	}
}
