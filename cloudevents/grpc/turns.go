// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// mostReads is the number of requests that are read from one connection at a time. gRPC collects a
// request in memory while the client sends it.
const mostReads = 2

// turns limits the memory of incomplete requests. A connection that sends slowly delays only itself.
// The zero value is ready to use.
type turns struct {
	mu    sync.Mutex
	conns map[string]*turn // by the address of the client
}

type turn struct {
	tokens chan struct{}
	calls  int // that use the turn
}

// read reads a message of a stream when the connection has room for it.
func (t *turns) read(stream grpc.ServerStream, message any) error {
	address := ""
	if p, ok := peer.FromContext(stream.Context()); ok {
		address = p.Addr.String()
	}
	conn := t.enter(address)
	defer t.leave(address)
	select {
	case conn.tokens <- struct{}{}:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	defer func() { <-conn.tokens }()
	return stream.RecvMsg(message)
}

func (t *turns) enter(address string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conn := t.conns[address]
	if conn == nil {
		if t.conns == nil {
			t.conns = map[string]*turn{}
		}
		conn = &turn{tokens: make(chan struct{}, mostReads)}
		t.conns[address] = conn
	}
	conn.calls++
	return conn
}

func (t *turns) leave(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	conn := t.conns[address]
	if conn.calls--; conn.calls == 0 {
		delete(t.conns, address)
	}
}
