// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package measure_test

import (
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/fleet-bench/internal/measure"
)

func TestHistogram(t *testing.T) {
	var h measure.Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Errorf("an empty histogram: %v, %v, %d", h.Quantile(0.5), h.Max(), h.Count())
	}
	const n = 100_000
	for i := n; i > 0; i-- {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	if h.Count() != n || h.Max() != n*time.Microsecond {
		t.Errorf("%d, max %v", h.Count(), h.Max())
	}
	for _, q := range []float64{0.0001, 0.5, 0.9, 0.99, 0.999, 1} {
		got, want := float64(h.Quantile(q)), q*n*float64(time.Microsecond)
		if got < want*0.999 || got > want*1.04 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, 63, 64, 65, math.MaxInt64, -1} {
		var one measure.Histogram
		one.Add(d)
		if got := one.Quantile(0.99); got != max(d, 0) {
			t.Errorf("the only value %d became %d", d, got)
		}
	}
}

func TestSeries(t *testing.T) {
	s := measure.NewSeries()
	for range 50 {
		s.Add()
	}
	var sum float64
	for _, rate := range s.PerSecond() {
		sum += rate * measure.Step.Seconds()
	}
	if math.Round(sum) != 50 {
		t.Errorf("%v events, want 50", sum)
	}
}

// TestWire checks that the traffic between a process and a server is counted once, also after the
// connection has ended.
func TestWire(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what a socket has moved")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	wire, err := measure.NewWire(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 2; i++ {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, client, server, 5000)
		exchange(t, server, client, 300)
		want := measure.Bytes{Sent: 5000 * int64(i), Received: 300 * int64(i)}
		deadline := time.Now().Add(10 * time.Second)
		for {
			got, ok := wire.Total()
			// The system may count the start of a connection as one sent byte.
			if ok && got.Received == want.Received && got.Sent >= want.Sent && got.Sent <= want.Sent+int64(i) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v, %v, want %+v", got, ok, want)
			}
			time.Sleep(time.Millisecond)
		}
		client.Close()
		server.Close()
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

func TestLive(t *testing.T) {
	before := measure.Live()
	kept := make([]byte, 10<<20)
	_ = make([]byte, 10<<20)
	grown := measure.Live().Minus(before)
	runtime.KeepAlive(kept)
	if grown.Heap < 9<<20 || grown.Heap > 12<<20 {
		t.Errorf("10 MiB more are live, not %d bytes", grown.Heap)
	}
}

func TestAllowFiles(t *testing.T) {
	if err := measure.AllowFiles(10); err != nil {
		t.Error(err)
	}
	if err := measure.AllowFiles(math.MaxInt32); err != nil && !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("%v does not say what to do", err)
	}
}
