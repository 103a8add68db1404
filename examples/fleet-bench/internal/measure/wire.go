// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
)

// Bytes is the traffic of sockets, with TLS and without TCP headers.
type Bytes struct {
	Sent, Received int64
}

// Wire counts the bytes between this process and one server. It reads the counters of the system,
// so it does not slow down the connections.
type Wire struct {
	servers map[netip.AddrPort]bool

	mu    sync.Mutex
	seen  map[netip.AddrPort]Bytes // by local address, as last sampled
	total Bytes
}

// NewWire returns a counter for the traffic with host:port.
func NewWire(ctx context.Context, hostPort string) (*Wire, error) {
	host, service, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port of %s: %w", hostPort, err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	w := &Wire{servers: map[netip.AddrPort]bool{}, seen: map[netip.AddrPort]Bytes{}}
	for _, addr := range addrs {
		w.servers[netip.AddrPortFrom(addr.Unmap(), uint16(port))] = true
	}
	return w, nil
}

// Total returns the bytes so far, and whether the system reports them. It misses the bytes that a
// closed connection moved after the last call, so call it before connections end.
func (w *Wire) Total() (Bytes, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, ok := sockets(w.servers)
	if !ok {
		return Bytes{}, false
	}
	for local, bytes := range now {
		before := w.seen[local]
		if bytes.Sent < before.Sent || bytes.Received < before.Received {
			before = Bytes{} // another connection has the same port
		}
		w.total.Sent += bytes.Sent - before.Sent
		w.total.Received += bytes.Received - before.Received
	}
	w.seen = now
	return w.total, true
}
