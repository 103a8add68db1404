// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWire checks that the traffic of open connections is counted.
func TestWire(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports the bytes of a socket")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	before := wire()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	exchange(t, client, server, 5000)
	exchange(t, server, client, 300)
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := wire().minus(before)
		// The system may count the start of a connection as one sent byte.
		if got.received == 5300 && got.sent >= 5300 && got.sent <= 5302 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want 5300 in each direction", got)
		}
		time.Sleep(time.Millisecond)
	}
}

func exchange(t *testing.T, from io.Writer, to io.Reader, n int) {
	t.Helper()
	if _, err := io.WriteString(from, strings.Repeat("x", n)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(to, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

func TestLiveHeap(t *testing.T) {
	before := live()
	kept := make([]byte, 10<<20)
	_ = make([]byte, 10<<20)
	grown := live().each(before, 10)
	runtime.KeepAlive(kept)
	if grown.heap < 7<<17 || grown.heap > 10<<17 {
		t.Errorf("10 times 1 MiB more are live, not %d bytes", grown.heap)
	}
}

func TestLiveStacks(t *testing.T) {
	const n = 10_000 // more than earlier tests have left to use again
	before, end := live(), make(chan struct{})
	var running sync.WaitGroup
	for range n {
		running.Go(func() { <-end })
	}
	grown := live().each(before, n)
	close(end)
	running.Wait()
	if grown.stack < 1<<10 || grown.stack > 16<<10 {
		t.Errorf("a goroutine has a stack of %d bytes", grown.stack)
	}
}

func TestCheckFiles(t *testing.T) {
	if err := checkFiles(10); err != nil {
		t.Error(err)
	}
	if err := checkFiles(math.MaxInt32); err != nil && !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("%v lacks advice", err)
	}
}
