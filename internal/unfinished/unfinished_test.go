// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package unfinished_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/spokewire/sdk-go/internal/unfinished"
)

const (
	data, headers, reset      = 0, 1, 3
	endStream, padded    byte = 1, 8

	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

func frame(id uint32, kind, flags byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), id)
	return append(b, payload...)
}

// message is a gRPC message.
func message(n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), make([]byte, n)...)
}

// pipe is a connection to a server that only reads.
type pipe struct {
	net.Conn           // of the client
	server   net.Conn  // wrapped
	cut      chan bool // closed when the server is cut
	read     chan error
}

func newPipe(t *testing.T, l *unfinished.Limit, name string) *pipe {
	near, far := net.Pipe()
	p := &pipe{Conn: near, cut: make(chan bool), read: make(chan error, 1)}
	p.server = l.Wrap(far, name, func() {
		close(p.cut)
		_ = far.Close()
	})
	go func() {
		buf := make([]byte, 4096)
		for {
			if _, err := p.server.Read(buf); err != nil {
				p.read <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = near.Close()
		_ = p.server.Close()
	})
	if _, err := near.Write([]byte(preface)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pipe) isCut() bool {
	select {
	case <-p.cut:
		return true
	default:
		return false
	}
}

// send writes frames, and a frame that the server ignores, so that it has handled the others.
func (p *pipe) send(frames ...[]byte) {
	for _, f := range append(frames, frame(0, 6, 0, make([]byte, 8192))) {
		if _, err := p.Write(f); err != nil {
			return
		}
	}
}

const kib = 1 << 10

func TestUnfinishedMessagesOfConnection(t *testing.T) {
	half := message(40 * kib)[:20*kib]
	for _, row := range []struct {
		name   string
		frames func(i uint32) [][]byte // of 100 rounds
		cut    bool
	}{
		{"finished", func(uint32) [][]byte { return [][]byte{frame(1, data, 0, message(40*kib))} }, false},
		{"finished in parts", func(uint32) [][]byte {
			return [][]byte{frame(1, data, 0, half), frame(1, data, 0, message(40 * kib)[20*kib:])}
		}, false},
		{"finished with padding", func(uint32) [][]byte {
			return [][]byte{frame(1, data, padded, append([]byte{9}, append(message(kib), make([]byte, 9)...)...))}
		}, false},
		{"many in a frame", func(uint32) [][]byte {
			return [][]byte{frame(1, data, 0, bytes.Repeat(message(100), 100))}
		}, false},
		{"unfinished", func(i uint32) [][]byte { return [][]byte{frame(2*i+1, data, 0, half)} }, true},
		{"unfinished one byte at a time", func(uint32) [][]byte {
			return [][]byte{frame(1, data, 0, []byte{0, 0}), frame(3, data, 0, []byte{1})}
		}, false},
		{"long with short frames", func(i uint32) [][]byte {
			if i == 0 {
				return [][]byte{frame(1, data, 0, message(1 << 20)[:5])}
			}
			return [][]byte{frame(1, data, 0, make([]byte, 1)), frame(1, data, 0, make([]byte, 1)),
				frame(1, data, 0, make([]byte, 1))}
		}, true},
		{"reset", func(i uint32) [][]byte {
			return [][]byte{frame(2*i+1, data, 0, half), frame(2*i+1, reset, 0, make([]byte, 4))}
		}, false},
		{"ended", func(i uint32) [][]byte { return [][]byte{frame(2*i+1, data, endStream, half)} }, false},
		{"ended by headers", func(i uint32) [][]byte {
			return [][]byte{frame(2*i+1, data, 0, half), frame(2*i+1, headers, endStream, []byte("x"))}
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPipe(t, unfinished.New(100*kib, 1<<30), "c")
			for i := range uint32(100) {
				p.send(row.frames(i)...)
			}
			if got := p.isCut(); got != row.cut {
				t.Errorf("cut %v, want %v", got, row.cut)
			}
			if !row.cut {
				return
			}
			if err := <-p.read; !errors.Is(err, unfinished.ErrExceeded) {
				t.Errorf("Read returned %v, want ErrExceeded", err)
			}
		})
	}
}

// TestEndByServer checks that messages that the server does not want are not counted.
func TestEndByServer(t *testing.T) {
	p := newPipe(t, unfinished.New(100*kib, 1<<30), "c")
	go func() { _, _ = io.Copy(io.Discard, p.Conn) }()
	for i := range uint32(100) {
		p.send(frame(2*i+1, data, 0, message(40 * kib)[:20*kib]))
		if _, err := p.server.Write(frame(2*i+1, headers, endStream, []byte("trailer"))); err != nil {
			t.Fatal(err)
		}
		p.send(frame(2*i+1, data, 0, make([]byte, kib)))
	}
	if p.isCut() {
		t.Error("the connection was cut")
	}
}

// TestTotal checks that the client that has most is cut, and that all bytes are counted back.
func TestTotal(t *testing.T) {
	limit := unfinished.New(200*kib, 300*kib)
	half := frame(1, data, 0, message(200 * kib)[:90*kib])
	var greedy []*pipe
	for range 2 {
		p := newPipe(t, limit, "greedy")
		p.send(half)
		greedy = append(greedy, p)
	}
	var others []*pipe
	for _, name := range []string{"a", "b", "c"} {
		p := newPipe(t, limit, name)
		p.send(half)
		others = append(others, p)
	}
	if a, b := greedy[0].isCut(), greedy[1].isCut(); !a || !b {
		t.Errorf("the connections of the client that has most are cut: %v and %v", a, b)
	}
	for i, p := range others {
		if p.isCut() {
			t.Errorf("connection %d was cut", i)
		}
		_ = p.server.Close()
	}
	if p := newPipe(t, limit, "d"); p != nil {
		if p.send(half); p.isCut() {
			t.Error("closed connections are counted")
		}
	}
}

// TestPartsOfAnySize checks that the split of the bytes does not matter.
func TestPartsOfAnySize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var b []byte
		open := map[uint32][]byte{}
		for range 50 {
			id := uint32(2*r.IntN(4) + 1)
			if len(open[id]) == 0 {
				open[id] = message(r.IntN(3 * kib))
			}
			n := r.IntN(len(open[id])) + 1
			b = append(b, frame(id, data, 0, open[id][:n])...)
			open[id] = open[id][n:]
		}
		for id, rest := range open {
			b = append(b, frame(id, data, 0, rest)...)
		}
		p := newPipe(t, unfinished.New(64*kib, 1<<30), "c")
		for len(b) > 0 {
			n := min(r.IntN(2*kib)+1, len(b))
			p.write(t, b[:n])
			b = b[n:]
		}
		p.send(frame(1, data, 0, message(60 * kib)[:60*kib]))
		if p.isCut() {
			t.Fatal("finished messages are counted")
		}
		_ = p.Close()
	}
}

func (p *pipe) write(t *testing.T, b []byte) {
	t.Helper()
	if _, err := p.Write(b); err != nil {
		t.Fatal(err)
	}
}
