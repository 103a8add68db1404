// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tcpproxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that returns all bytes that it receives, until the client ends the stream.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// start returns a proxy for an echo server. The proxy ends first, so the server loses its
// connections and can end too.
func start(t *testing.T) *tcpproxy.Proxy {
	t.Helper()
	return tcpproxy.Start(t, echo(t))
}

func dial(t *testing.T, p *tcpproxy.Proxy) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say sends text and waits for its echo, at most limit.
func say(conn net.Conn, text string, limit time.Duration) error {
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	return hear(conn, text, limit)
}

func hear(conn net.Conn, want string, limit time.Duration) error {
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != want {
		return errors.New("heard " + string(got) + ", want " + want)
	}
	return nil
}

const patience = time.Minute

func TestForwardsBothWaysAndTheEnd(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB: many pieces
	go func() {
		_, _ = conn.Write(want)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes and %v, want %d and the end of the stream", len(got), err, len(want))
	}
	for start := time.Now(); p.Links() != 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("Links() = %d after both sides were done", p.Links())
		}
	}
}

// TestSeveralTargets checks that connections go to the targets in turn.
func TestSeveralTargets(t *testing.T) {
	var targets []string
	accepted := make(chan int, 4)
	for i := range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		targets = append(targets, listener.Addr().String())
		go func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				_ = conn.Close()
				accepted <- i
			}
		}()
	}
	p := tcpproxy.Start(t, targets...)
	for _, want := range []int{0, 1, 0, 1} {
		dial(t, p)
		if got := <-accepted; got != want {
			t.Errorf("target %d has the connection, want %d", got, want)
		}
	}
}

func TestCutClosesLinksOnly(t *testing.T) {
	p := start(t)
	first, second := dial(t, p), dial(t, p)
	for _, conn := range []net.Conn{first, second} {
		if err := say(conn, "hello", patience); err != nil {
			t.Fatal(err)
		}
	}
	if p.Links() != 2 {
		t.Errorf("Links() = %d, want 2", p.Links())
	}
	p.Cut()
	for _, conn := range []net.Conn{first, second} {
		if err := say(conn, "hello", patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after Cut: %v, want a broken connection", err)
		}
	}
	if err := say(dial(t, p), "again", patience); err != nil {
		t.Errorf("new connection after Cut: %v", err)
	}
}

func TestBlockTurnsNewOnesAway(t *testing.T) {
	p := start(t)
	old := dial(t, p)
	if err := say(old, "hello", patience); err != nil {
		t.Fatal(err)
	}
	p.Block()
	if conn, err := net.DialTimeout("tcp", p.Addr(), patience); err == nil {
		defer func() { _ = conn.Close() }()
		if err := say(conn, "let me in", patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while blocked: %v, want a broken connection", err)
		}
	}
	if err := say(old, "still here", patience); err != nil {
		t.Errorf("a link from before Block: %v", err)
	}
	p.Unblock()
	if err := say(dial(t, p), "again", patience); err != nil {
		t.Errorf("after Unblock: %v", err)
	}
}

func TestDelayAddsLatencyNotThrottling(t *testing.T) {
	const delay, pieces = 200 * time.Millisecond, 100
	p := start(t)
	conn := dial(t, p)
	p.Delay(delay)
	began := time.Now()
	for range pieces {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // a packet of its own
	}
	if err := hear(conn, string(bytes.Repeat([]byte("x"), pieces)), patience); err != nil {
		t.Fatal(err)
	}
	// One delay in each direction, and far less than sequential delays of all pieces.
	if took := time.Since(began); took < 2*delay || took > pieces*delay {
		t.Errorf("echo of %d pieces took %v, want at least %v and far less than %v", pieces, took, 2*delay, pieces*2*delay)
	}
}

func TestLimitBoundsTheRate(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	p.Limit(1 << 20)
	text, began := strings.Repeat("x", 256<<10), time.Now()
	if err := say(conn, text, patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("256 KiB took %s at 1 MiB/s", took)
	}
}

func TestStallKeepsTheLinkOpen(t *testing.T) {
	p := start(t)
	conn := dial(t, p)
	if err := say(conn, "hello", patience); err != nil {
		t.Fatal(err)
	}
	p.Stall()
	p.Stall()
	if err := say(conn, "anybody there?", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while stalled: %v, want silence", err)
	}
	p.Resume()
	p.Resume()
	if err := hear(conn, "anybody there?", patience); err != nil {
		t.Errorf("after Resume: %v", err)
	}
	p.Stall() // the end of the test must not wait for a stalled link
	if _, err := conn.Write([]byte("unheard")); err != nil {
		t.Error(err)
	}
}

func TestTargetIsDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := listener.Addr().String()
	_ = listener.Close()
	p := tcpproxy.Start(t, target)
	// The reset may arrive before or after the dial has returned.
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err == nil {
		defer func() { _ = conn.Close() }()
		err = say(conn, "hello", patience)
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("err = %v, want a broken connection", err)
	}
	p.Forward(echo(t))
	if err := say(dial(t, p), "hello", patience); err != nil {
		t.Errorf("at its new address: %v", err)
	}
}

func TestTap(t *testing.T) {
	proxy := start(t)
	var mu sync.Mutex
	var heard bytes.Buffer
	proxy.Tap(func(data []byte) {
		mu.Lock()
		defer mu.Unlock()
		heard.Write(data)
	})
	conn := dial(t, proxy)
	if err := say(conn, "hello", patience); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := heard.String(); got != "hellohello" {
		t.Errorf("heard %q, want both directions", got)
	}
}
