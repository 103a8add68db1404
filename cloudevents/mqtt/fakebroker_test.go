// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package mqtt_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// accepted is the smallest CONNACK.
var accepted = []byte{0x20, 3, 0, 0, 0}

// fake accepts connections and passes each to serve, which acts as the broker. A connection stays
// open until the end of the test, even after serve has returned.
func fake(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, listener, serve)
	return listener.Addr().String()
}

func serveOn(t *testing.T, listener net.Listener, serve func(net.Conn)) {
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			running.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
}

// readPacket reads one packet of less than 16,384 bytes and reports whether it was complete.
func readPacket(conn net.Conn) (kind byte, rest []byte, ok bool) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, nil, false
	}
	length := int(head[1] & 0x7f)
	if head[1]&0x80 != 0 {
		more := make([]byte, 1)
		if _, err := io.ReadFull(conn, more); err != nil {
			return 0, nil, false
		}
		length |= int(more[0]) << 7
	}
	rest = make([]byte, length)
	_, err := io.ReadFull(conn, rest)
	return head[0] >> 4, rest, err == nil
}

// silent acts as a broker that sends nothing.
func silent(net.Conn) {}

// silentAfterConnect acts as a broker that answers CONNECT and then sends nothing.
func silentAfterConnect(conn net.Conn) {
	if _, _, ok := readPacket(conn); ok {
		_, _ = conn.Write(accepted)
	}
}

// saying acts as a broker that accepts the connection and the subscription, and then sends what.
func saying(what []byte) func(net.Conn) {
	return func(conn net.Conn) {
		silentAfterConnect(conn)
		_, rest, ok := readPacket(conn)
		if !ok {
			return
		}
		_, _ = conn.Write([]byte{0x90, 4, rest[0], rest[1], 0, 1})
		_, _ = conn.Write(what)
	}
}
