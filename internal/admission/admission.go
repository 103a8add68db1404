// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission lets the clients of a process connect to a server in waves, so that a restarted
// server is not overrun.
package admission

import (
	"context"
	"sync"
)

// Max is the number of clients of this process that connect to one server at the same time.
// Mosquitto's queue of new connections has 100 places. Linux ignores further connections, and
// repeats each attempt after 1, 3 and 7 s.
const Max = 64

// servers are those to which clients connect, by address.
var servers = struct {
	sync.Mutex
	all map[string]*server
}{all: map[string]*server{}}

type server struct {
	places  chan struct{}
	clients int // that wait or have a place
}

// Enter waits for a place at a server, or for ctx. Places are given in the order of the calls. The
// client calls leave when it has connected or failed.
func Enter(ctx context.Context, address string) (leave func(), err error) {
	servers.Lock()
	s := servers.all[address]
	if s == nil {
		s = &server{places: make(chan struct{}, Max)}
		servers.all[address] = s
	}
	s.clients++
	servers.Unlock()
	forget := func() {
		servers.Lock()
		defer servers.Unlock()
		if s.clients--; s.clients == 0 {
			delete(servers.all, address)
		}
	}
	select {
	case s.places <- struct{}{}:
		return func() { <-s.places; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

// Servers returns the number of servers to which clients connect now.
func Servers() int {
	servers.Lock()
	defer servers.Unlock()
	return len(servers.all)
}
