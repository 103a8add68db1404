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

	"github.com/spokewire/sdk-go/internal/wait"
)

const (
	// maxPending is the number of unwritten bytes at which further messages wait. Acknowledgements
	// and pings may exceed it.
	maxPending = 16 << 10
	// keptBuffer is the largest write buffer in bytes that a connection keeps while it writes
	// nothing, until trim drops it.
	keptBuffer = 32 << 10
	// drainTimeout is how long Close waits for buffered bytes to be sent, above all the DISCONNECT.
	drainTimeout = 250 * time.Millisecond
)

// errClosed is the error of reads and writes after close.
var errClosed = errors.New("the connection was closed")

// wire is the net.Conn of paho. It gathers writes: paho makes four for each PUBLISH, and with
// several messages in flight, one system call writes many packets.
//
// paho locks its connection, if it is a [sync.Locker], while it writes one packet. So at Unlock a
// packet is complete and can be sent. Writes never wait: a broker that does not read may be waiting
// for acknowledgements behind that packet. A publisher waits for space before, in waitRoom.
type wire struct {
	net.Conn          // with TLS or WebSocket, depending on the scheme
	raw      net.Conn // the underlying TCP connection, which closes immediately

	in      reader
	started time.Time
	reading atomic.Bool
	lastIn  atomic.Int64 // times of the last read, its start, or the last write, as durations since started
	lastOut atomic.Int64
	gone    chan struct{} // closed by leave, when the wire is broken or closed
	leave   func()

	mu       sync.Mutex     // held by paho from the first to the last byte of a packet
	greeting []byte         // replaces the first packet, see func greeting
	out      []byte         // complete packets, and the one that paho is writing
	spare    []byte         // the last sent buffer
	flushing bool           // a goroutine runs flush
	idle     chan struct{}  // closed when the last flush has ended; nil before the first
	room     wait.Broadcast // there is room again
	closed   bool
	writeErr error // reason why writes fail; err is set when reading has ended as well
	err      error // reason why the wire is broken; nil after close

	closeOnce sync.Once
}

var (
	_ net.Conn    = (*wire)(nil)
	_ sync.Locker = (*wire)(nil)
)

func newWire(conn, raw net.Conn, greeting []byte) *wire {
	w := &wire{Conn: conn, raw: raw, greeting: greeting, started: time.Now(), gone: make(chan struct{})}
	w.leave = sync.OnceFunc(func() { close(w.gone) })
	w.in.init(w.readConn)
	return w
}

func (w *wire) now() time.Duration { return time.Since(w.started) }

// Read implements [net.Conn]. It is called by one goroutine at a time.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.in.read(p)
	if err != nil && n == 0 { // otherwise it is the end of a packet
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

// lastRead returns the time of the last bytes, or now while no read is in progress: then the broker
// does not count as silent.
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

// Unlock ends a packet. The sending goroutine runs only while there are bytes to send, to save its
// stack on idle connections.
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

// flush sends until no bytes are left. Packets that arrive while it writes are sent together in the
// next round.
func (w *wire) flush() {
	w.mu.Lock()
	for len(w.out) > 0 && w.err == nil && w.writeErr == nil {
		buf := w.out
		w.out, w.spare = w.spare[:0], nil
		w.room.Wake()
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

func (w *wire) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.flushing && len(w.out) == 0 {
		w.out, w.spare = nil, nil
	}
}

// waitRoom waits until another message may be written. The error is the reason why none can be.
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
		room := w.room.Next()
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

func (w *wire) brokenLocked() error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return errClosed
	}
	return nil
}

func (w *wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

// writeFailedLocked ends writing, and reading after drainTimeout. A broker that refuses the client
// sends the reason and closes: writes may fail before the reason is read.
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
	w.room.Wake()
	_ = w.raw.Close()
}

// broken returns the reason why the wire is broken, or nil if it is not or was closed before.
func (w *wire) broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close sends the remaining bytes, but for no longer than drainTimeout, and closes. It always
// returns nil.
func (w *wire) Close() error {
	w.closeOnce.Do(func() {
		w.mu.Lock()
		w.closed = true
		w.leave()
		w.room.Wake()
		idle := w.idle
		w.mu.Unlock()
		// The close of TLS would wait up to 5 s for a peer that does not read.
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
