// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending is how many bytes may wait to be written before another message has to wait. It bounds
	// the memory of a connection whose broker reads slowly; acknowledgements and pings go beyond it.
	maxPending = 16 << 10
	// keptBuffer is the largest write buffer that a connection keeps when there is nothing to write, in bytes; trim
	// takes that away as well. With thousands of agents in one process, what all of them keep counts.
	keptBuffer = 32 << 10
	// drainTimeout is how long Close waits for what is written but not sent, the DISCONNECT above all.
	drainTimeout = 250 * time.Millisecond
)

// errClosed is what reads and writes get after close.
var errClosed = errors.New("the connection was closed")

// wire is the net.Conn that paho works on. It gathers writes: paho makes four for each PUBLISH, and with
// several messages under way many packets go into one system call.
//
// paho locks its connection, if that is a [sync.Locker], for the time in which it writes one packet. So
// Unlock is where a packet is complete and can be sent. Writes never wait: a packet under way must not be held up by
// a broker that does not read, since the same broker may be waiting for the acknowledgements behind it. A
// publisher waits for space before its packet, in waitRoom.
type wire struct {
	net.Conn          // speaks TLS or WebSocket where the scheme says so
	raw      net.Conn // the TCP connection beneath; closing it is always immediate

	in      reader
	started time.Time
	reading atomic.Bool
	lastIn  atomic.Int64 // when bytes came and went, or a read began, as durations since started
	lastOut atomic.Int64
	gone    chan struct{} // closed by leave, when it broke or is closed
	leave   func()

	mu       sync.Mutex // held by paho from the first to the last byte of a packet
	greeting []byte     // takes the place of the first packet, see settings.greeting
	out      []byte     // complete packets, and the one paho is writing
	spare    []byte     // the buffer that was sent last
	flushing bool       // a goroutine runs flush
	idle     chan struct{}
	room     chan struct{} // closed when there is room again; nil when nobody waits
	closed   bool
	writeErr error // why nothing can be written; err follows when reading has ended as well
	err      error // why the wire broke, nil after close

	closeOnce sync.Once
}

var (
	_ net.Conn    = (*wire)(nil)
	_ sync.Locker = (*wire)(nil)
)

// newWire wraps conn. greeting, where it is not nil, is sent instead of the first packet.
func newWire(conn, raw net.Conn, greeting []byte) *wire {
	w := &wire{Conn: conn, raw: raw, greeting: greeting, started: time.Now(), gone: make(chan struct{})}
	w.leave = sync.OnceFunc(func() { close(w.gone) })
	w.in.init(w.readConn)
	return w
}

// now is a clock that costs no memory to remember.
func (w *wire) now() time.Duration { return time.Since(w.started) }

// Read implements [net.Conn]. It is called by one goroutine at a time.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.in.read(p)
	if err != nil && n == 0 { // else it is the end of a packet
		w.fail(err)
	}
	return n, err
}

func (w *wire) readConn(p []byte) (int, error) {
	w.lastIn.Store(int64(w.now()))
	w.reading.Store(true)
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.lastIn.Store(int64(w.now()))
	}
	w.reading.Store(false)
	return n, err
}

// lastRead returns the time of the last bytes, or now while no read is in progress: then the broker is not silent.
func (w *wire) lastRead() time.Duration {
	if !w.reading.Load() {
		return w.now()
	}
	return time.Duration(w.lastIn.Load())
}

// Lock begins a packet.
func (w *wire) Lock() { w.mu.Lock() }

// Write adds to the packet that Lock has begun.
func (w *wire) Write(p []byte) (int, error) {
	if err := w.brokenLocked(); err != nil {
		return 0, err
	}
	if w.writeErr != nil {
		return 0, w.writeErr
	}
	if w.out == nil {
		w.out, w.spare = w.spare[:0], nil
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

// Unlock ends a packet. The goroutine that sends lives only while there is something to send, so that idle
// connections do not pay for its stack.
func (w *wire) Unlock() {
	if w.greeting != nil {
		w.out, w.greeting = append(w.out[:0], w.greeting...), nil
	}
	start := len(w.out) > 0 && !w.flushing && w.brokenLocked() == nil && w.writeErr == nil
	if start {
		w.flushing = true
		w.idle = make(chan struct{})
	}
	w.mu.Unlock()
	if start {
		go w.flush()
	}
}

// flush sends until nothing is left. Packets that arrive while it writes go out together in the next round.
func (w *wire) flush() {
	w.mu.Lock()
	for len(w.out) > 0 && w.err == nil && w.writeErr == nil {
		buf := w.out
		w.out, w.spare = w.spare[:0], nil
		w.signalRoom()
		w.mu.Unlock()
		_, err := w.Conn.Write(buf)
		w.lastOut.Store(int64(w.now()))
		w.mu.Lock()
		w.spare = buf
		if err != nil {
			w.writeFailedLocked(err)
		}
	}
	if cap(w.spare) > keptBuffer {
		w.spare = nil
	}
	if cap(w.out) > keptBuffer {
		w.out = nil
	}
	w.flushing = false
	close(w.idle)
	w.mu.Unlock()
}

// trim lets go of the write buffers of an idle connection.
func (w *wire) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.flushing && len(w.out) == 0 {
		w.out, w.spare = nil, nil
	}
}

// waitRoom returns when another message may be written: nil, or why not.
func (w *wire) waitRoom(ctx context.Context, ended <-chan struct{}) error {
	for {
		w.mu.Lock()
		if err := w.brokenLocked(); err != nil {
			w.mu.Unlock()
			return err
		}
		if len(w.out) < maxPending && w.writeErr == nil {
			w.mu.Unlock()
			return nil
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ended:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *wire) signalRoom() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// brokenLocked returns why nothing can be written any more.
func (w *wire) brokenLocked() error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return errClosed
	}
	return nil
}

// fail records why the wire broke and makes the other direction end as well.
func (w *wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

// writeFailedLocked ends writing, and reading soon after. A broker that refuses the client says why and closes;
// what is written meanwhile fails before its reason is read.
func (w *wire) writeFailedLocked(err error) {
	if w.err != nil || w.closed || w.writeErr != nil {
		return
	}
	w.writeErr = err
	w.leave()
	_ = w.raw.SetReadDeadline(time.Now().Add(drainTimeout))
}

func (w *wire) failLocked(err error) {
	if w.err != nil || w.closed {
		return
	}
	if w.writeErr != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = w.writeErr
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the broker closed the connection")
	}
	w.err = err
	w.leave()
	w.signalRoom()
	_ = w.raw.Close()
}

// broken returns why the wire broke, nil when it did not or was closed before.
func (w *wire) broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close sends what is left, but for no longer than drainTimeout, and closes. It always returns nil, when all is
// over, also to those who call it again.
func (w *wire) Close() error {
	w.closeOnce.Do(func() {
		w.mu.Lock()
		w.closed = true
		w.leave()
		w.signalRoom()
		var idle chan struct{}
		if w.flushing {
			idle = w.idle
		}
		w.mu.Unlock()
		// TLS would wait up to 5 s to tell a peer that does not read of the end: hence the raw connection.
		timer := time.AfterFunc(drainTimeout, func() { _ = w.raw.Close() })
		defer timer.Stop()
		if idle != nil {
			<-idle
		}
		_ = w.Conn.Close()
		_ = w.raw.Close()
	})
	return nil
}
